// SPDX-License-Identifier: Apache-2.0
#include "runtime/convert/write_tensors.h"

#include <algorithm>
#include <mutex>
#include <new>
#include <vector>

#include "runtime/threads/pool.h"
#include "runtime/weights/rows.h"

namespace moonlit {
namespace {

// Values that one task encodes (at least a row), and tasks a thread has in a batch: a search takes a microsecond a value or
// more, so a task is long against a barrier and a batch evens out.
constexpr size_t kTaskValues = size_t{1} << 17;
constexpr size_t kTasksPerThread = 8;

// Rows [first, first + rows) of a tensor, in tasks of task_rows.
struct Batch {
  const WeightSource* source;
  const TensorInfo* tensor;
  size_t first, rows, task_rows;
  uint8_t* bytes;  // [rows] encoded
  std::mutex mutex;
  Status fault;  // of the first rows that have one; guarded by mutex
  size_t fault_task = SIZE_MAX;
  Status no_memory{Code::kOutOfMemory, "not enough memory to read a tensor"};
};

Status ReadTask(const Batch& batch, size_t task) {
  const size_t row_bytes = TensorRowBytes(*batch.tensor);
  const size_t from = task * batch.task_rows;
  const size_t rows = std::min(batch.task_rows, batch.rows - from);
  return batch.source->Read(*batch.tensor, uint64_t{batch.first + from} * row_bytes, batch.bytes + from * row_bytes,
                            rows * row_bytes);
}

void RunTask(void* context, size_t task, size_t) {
  Batch& batch = *static_cast<Batch*>(context);
  const auto fail = [&](Status status) {
    const std::lock_guard lock(batch.mutex);
    if (task > batch.fault_task) return;
    batch.fault_task = task;
    batch.fault = std::move(status);
  };
  try {
    Status status = ReadTask(batch, task);
    if (!status.ok()) fail(std::move(status));
  } catch (const std::bad_alloc&) {
    const std::lock_guard lock(batch.mutex);
    if (batch.fault.ok()) batch.fault = std::move(batch.no_memory);
    batch.fault_task = 0;
  }
}

class Progress {
 public:
  Progress(const WriteTensorsOptions& options, uint64_t total) : options_(options), total_(total) {}
  Status Add(uint64_t bytes) {
    done_ += bytes;
    if (!options_.progress || options_.progress(done_, total_)) return Status();
    return Errorf(Code::kCancelled, "writing was cancelled");
  }

 private:
  const WriteTensorsOptions& options_;
  const uint64_t total_;
  uint64_t done_ = 0;
};

Status WriteTensor(const WeightSource& source, const TensorInfo& tensor, ThreadPool& pool, std::vector<uint8_t>* bytes,
                   GgufWriter* writer, Progress* progress) {
  const size_t row_bytes = TensorRowBytes(tensor);
  const size_t rows = tensor.shape.rows();
  const size_t task_rows = std::max<size_t>(1, kTaskValues / tensor.shape.columns());
  const size_t batch_rows = std::min(rows, task_rows * kTasksPerThread * pool.threads());
  bytes->resize(batch_rows * row_bytes);
  for (size_t first = 0; first < rows; first += batch_rows) {
    const size_t count = std::min(batch_rows, rows - first);
    Batch batch{&source, &tensor, first, count, task_rows, bytes->data(), {}, {}, SIZE_MAX};
    const moonlit::Stage stage{(count + task_rows - 1) / task_rows, &RunTask, &batch};
    MOONLIT_RETURN_IF_ERROR(pool.Run({&stage, 1}));
    MOONLIT_RETURN_IF_ERROR(batch.fault);
    MOONLIT_RETURN_IF_ERROR(writer->Append(bytes->data(), count * row_bytes));
    MOONLIT_RETURN_IF_ERROR(progress->Add(count * row_bytes));
  }
  return Status();
}

}  // namespace

void AddTensors(const WeightSource& source, GgufWriter* writer) {
  for (const TensorInfo* tensor : source.All()) {
    std::vector<uint64_t> dims;
    for (size_t i = 0; i < tensor->shape.rank(); ++i) dims.push_back(tensor->shape[i]);
    writer->AddTensor(tensor->name, tensor->format, dims);
  }
}

Status WriteTensors(const WeightSource& source, const std::string& path, const WriteTensorsOptions& options,
                    GgufWriter* writer) {
  AddTensors(source, writer);
  MOONLIT_ASSIGN_OR_RETURN(const std::unique_ptr<ThreadPool> pool, ThreadPool::Create(options.pool));
  MOONLIT_RETURN_IF_ERROR(writer->Begin(path));
  Progress progress(options, writer->tensor_bytes());
  std::vector<uint8_t> bytes;
  for (const TensorInfo* tensor : source.All())
    MOONLIT_RETURN_IF_ERROR(WriteTensor(source, *tensor, *pool, &bytes, writer, &progress));
  return writer->Finish();
}

}  // namespace moonlit
