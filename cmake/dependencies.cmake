# SPDX-License-Identifier: Apache-2.0
# The table of everything that is not ours. A row pins one release:
#
#   moonlit_dependency(NAME VERSION v
#     UPSTREAM url sha256            the project's own release archive
#     DEBIAN   package file sha256   Debian's source archive of the same tree, below <mirror>/pool/main/
#     GIT      url commit            a full commit id, which is itself a hash of the content
#     ONLY     pattern...)           unpack no more than this
#
# UPSTREAM and DEBIAN hashes are equal where Debian took the archive as it was. docs/dependencies.md says where each hash
# was confirmed, and how to move a row to a newer version.

moonlit_dependency(highway VERSION 1.3.0
  UPSTREAM https://github.com/google/highway/archive/refs/tags/1.3.0.tar.gz
           07b3c1ba2c1096878a85a31a5b9b3757427af963b1141ca904db2f9f4afe0bc2
  DEBIAN   highway highway_1.3.0.orig.tar.gz
           07b3c1ba2c1096878a85a31a5b9b3757427af963b1141ca904db2f9f4afe0bc2
  ONLY     */hwy/* */LICENSE*)

moonlit_dependency(cli11 VERSION 2.4.1
  UPSTREAM https://github.com/CLIUtils/CLI11/archive/refs/tags/v2.4.1.tar.gz
           73b7ec52261ce8fe980a29df6b4ceb66243bb0b779451dbd3d014cfec9fdbb58
  DEBIAN   cli11 cli11_2.4.1+ds.orig.tar.xz
           0b8fbf2398875f15f30a675c7f412123a2aaa38df2863e991de72004fd5f1292)

moonlit_dependency(json VERSION 3.11.3
  UPSTREAM https://github.com/nlohmann/json/releases/download/v3.11.3/json.tar.xz
           d6c65aca6b1ed68e7a182f4757257b107ae403032760ed6ef121c9d55e81757d
  DEBIAN   nlohmann-json3 nlohmann-json3_3.11.3.orig.tar.gz
           0d8ef5af7f9794e3263480193c491549b2ba6cc74bb018906202ada498a79406
  ONLY     */single_include/* */LICENSE*)

moonlit_dependency(pcre2 VERSION 10.46
  UPSTREAM https://github.com/PCRE2Project/pcre2/releases/download/pcre2-10.46/pcre2-10.46.tar.gz
           8d28d7f2c3b970c3a4bf3776bcbb5adfc923183ce74bc8df1ebaad8c1985bd07
  DEBIAN   pcre2 pcre2_10.46.orig.tar.gz
           8d28d7f2c3b970c3a4bf3776bcbb5adfc923183ce74bc8df1ebaad8c1985bd07
  ONLY     */src/* */LICENCE*)

moonlit_dependency(utf8proc VERSION 2.11.3
  UPSTREAM https://github.com/JuliaStrings/utf8proc/archive/refs/tags/v2.11.3.tar.gz
           abfed50b6d4da51345713661370290f4f4747263ee73dc90356299dfc7990c78
  DEBIAN   utf8proc utf8proc_2.11.3.orig.tar.gz
           abfed50b6d4da51345713661370290f4f4747263ee73dc90356299dfc7990c78)

moonlit_dependency(googletest VERSION 1.16.0
  UPSTREAM https://github.com/google/googletest/archive/refs/tags/v1.16.0.tar.gz
           78c676fc63881529bf97bf9d45948d905a66833fbfa5318ea2cd7478cb98f399
  DEBIAN   googletest googletest_1.16.0.orig.tar.gz
           2f54382b5d13d6cd0be2afc524f1e510d37f8ba78c2d439c5bea64ef37e30d01)

# For -DMOONLIT_BUILD_BENCHMARKS=ON alone.
moonlit_dependency(benchmark VERSION 1.9.1
  UPSTREAM https://github.com/google/benchmark/archive/refs/tags/v1.9.1.tar.gz
           32131c08ee31eeff2c8968d7e874f3cb648034377dfc32a4c377fa8796d84981
  DEBIAN   benchmark benchmark_1.9.1.orig.tar.gz
           32131c08ee31eeff2c8968d7e874f3cb648034377dfc32a4c377fa8796d84981
  ONLY     */include/* */src/* */LICENSE*)

# Float products (runtime/xnnpack): projects without releases. These snapshots were built and tested together.
moonlit_dependency(xnnpack VERSION 4ea82e5
  DEBIAN   xnnpack xnnpack_0.0~git20241108.4ea82e5.orig.tar.xz
           90bde2caef0f880f627bab0dc805a86c4b8070cd98e3243db3046ab3f3be1a99
  GIT      https://github.com/google/XNNPACK 4ea82e595b36106653175dcb04b2aa532660d0d8
  ONLY     CMakeLists.txt LICENSE cmake/* include/* src/* scripts/* tools/*)

moonlit_dependency(pthreadpool VERSION 0e6ca13
  UPSTREAM https://github.com/google/pthreadpool/archive/0e6ca13779b57d397a5ba6bfdcaa8a275bc8ea2e.zip
           f602ab141bdc5d5872a79d6551e9063b5bfa7ad6ad60cceaa641de5c45c86d70
  DEBIAN   pthreadpool pthreadpool_0.0~git20251020.0e6ca13.orig.tar.xz
           7a385b6585abe8f8658952c50b44a1dabe200de2c88eabe65d15168b8a82295c)

moonlit_dependency(cpuinfo VERSION 877328f
  DEBIAN   cpuinfo cpuinfo_0.0~git20250905.877328f.orig.tar.xz
           557ca404a3836b9f335a3a06b65ff9fe9dbaaefab7fb5c0185f53d9f33615a10
  GIT      https://github.com/pytorch/cpuinfo 877328f188a3c7d1fa855871a278eb48d530c4c0)

moonlit_dependency(fxdiv VERSION b408327
  UPSTREAM https://github.com/Maratyszcza/FXdiv/archive/b408327ac2a15ec3e43352421954f5b1967701d1.zip
           ab7dfb08829bee33dca38405d647868fb214ac685e379ec7ef2bebcd234cd44d
  DEBIAN   fxdiv fxdiv_0.0~git20200417.b408327.orig.tar.xz
           7953482badaf4cb34026c3487c257b8e4ab2df061c019bd6fabbbc12ad52c44b)
