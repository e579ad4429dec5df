// For tests only: runs the blocks and threads of a kernel's launch on the CPU, see cuda_on_cpu.h.
#undef _FORTIFY_SOURCE  // its longjmp ends a program that changes stacks
#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <cstdio>
#include <string>
#include <vector>

#include "cuda_on_cpu.h"  // last: it takes words of CUDA from the headers of the system

// Borders of the section that holds every static __shared__ variable; null where there is none.
extern "C" char __start_cuda_shared[] __attribute__((weak, visibility("hidden")));
extern "C" char __stop_cuda_shared[] __attribute__((weak, visibility("hidden")));

dim3 gridDim, blockDim;
uint3 blockIdx, threadIdx;

namespace cuda_on_cpu {

constexpr unsigned char poison = 0xA5;
constexpr size_t guard_bytes = 64, page = 65536, stack_bytes = 512 * 1024;

enum class State { fresh, ready, at_block_barrier, at_warp_barrier, done };

// A stack. It is entered first through its context, then where it was left; swapcontext alone would ask the kernel for
// the mask of signals at each change, which took most of the time.
struct Fiber {
    ucontext_t context;
    jmp_buf left;
    bool was_entered = false;
    char* stack;
    Fiber() {
        stack = static_cast<char*>(
            mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
        if (stack == MAP_FAILED || mprotect(stack, page, PROT_NONE) != 0) abort();  // an overflow must not go unseen
    }
    Fiber(const Fiber&) = delete;
    ~Fiber() { munmap(stack, stack_bytes); }
};

struct Thread {
    State state;
    uint3 index;
    Fiber* fiber;
    unsigned int mask;    // the lanes its warp barrier waits for
    uint64_t published;   // what a shuffle shows to the other lanes
};

struct alignas(128) Line { unsigned char bytes[128]; };
struct Shared {
    std::vector<Line> lines;
    size_t used = 0;
    unsigned char* data() { return lines.data()->bytes; }
    void reset(size_t bytes) {
        used = bytes;
        lines.resize((bytes + guard_bytes) / sizeof(Line) + 1);
        memset(data(), poison, lines.size() * sizeof(Line));
    }
    bool overrun() {
        for (size_t i = used; i < lines.size() * sizeof(Line); ++i) if (data()[i] != poison) return true;
        return false;
    }
};

Shared shared;
jmp_buf scheduler;
std::vector<Thread> threads;
std::vector<unsigned int> order;    // in which the threads of a block are begun
size_t begun, current;              // threads begun; the thread that runs now
Fiber* running;
std::vector<Fiber*> all_fibers, idle_fibers;
std::string error;

Body body;

void fail(const char* what) {
    if (!error.empty()) return;
    char where[128];
    snprintf(where, sizeof where, " (block %u,%u,%u, thread %u,%u,%u)", blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x,
             threadIdx.y, threadIdx.z);
    error = std::string(what) + where;
}

void leave() {
    if (_setjmp(running->left) == 0) _longjmp(scheduler, 1);
}

void suspend(State state) {
    threads[current].state = state;
    leave();
}

[[noreturn]] void stop(const char* what) {
    fail(what);
    for (;;) suspend(State::done);
}

// A fiber runs fresh threads one after another; only a thread that meets a barrier keeps it.
void fiber_entry() {
    for (;;) {
        while (begun < order.size() && error.empty()) {
            current = order[begun++];
            threadIdx = threads[current].index;
            threads[current].fiber = running;
            body.call(body.kernel, body.args);
            threads[current].state = State::done;
        }
        idle_fibers.push_back(running);
        leave();
    }
}

Fiber* take_fiber() {
    if (idle_fibers.empty()) {
        all_fibers.push_back(new Fiber);
        idle_fibers.push_back(all_fibers.back());
        ucontext_t& c = all_fibers.back()->context;
        getcontext(&c);
        c.uc_stack.ss_sp = all_fibers.back()->stack;
        c.uc_stack.ss_size = stack_bytes;
        c.uc_link = nullptr;
        makecontext(&c, fiber_entry, 0);
    }
    Fiber* fiber = idle_fibers.back();
    idle_fibers.pop_back();
    return fiber;
}

void drop_fibers() {
    for (Fiber* fiber : all_fibers) delete fiber;
    all_fibers.clear();
    idle_fibers.clear();
}

void enter(Fiber* fiber) {
    running = fiber;
    if (_setjmp(scheduler) != 0) return;
    if (fiber->was_entered) _longjmp(fiber->left, 1);
    fiber->was_entered = true;
    setcontext(&fiber->context);
}

void run_what_can_run() {
    while (begun < order.size() && error.empty()) enter(take_fiber());
    for (unsigned int i : order) {
        if (threads[i].state != State::ready || !error.empty()) continue;
        current = i;
        threadIdx = threads[i].index;
        enter(threads[i].fiber);
    }
}

// Whether every lane that thread `i` waits for is there with the same mask, or has ended.
bool warp_complete(size_t i) {
    const size_t warp = i & ~size_t(31);
    for (unsigned int lane = 0; lane < 32 && warp + lane < threads.size(); ++lane) {
        const Thread& other = threads[warp + lane];
        if (!(threads[i].mask >> lane & 1) || other.state == State::done) continue;
        if (other.state != State::at_warp_barrier || other.mask != threads[i].mask) return false;
    }
    return true;
}

bool release_warps() {
    std::vector<size_t> free;
    for (size_t i = 0; i < threads.size(); ++i)
        if (threads[i].state == State::at_warp_barrier && warp_complete(i)) free.push_back(i);
    for (size_t i : free) threads[i].state = State::ready;
    return !free.empty();
}

bool block_done() {
    for (const Thread& t : threads) if (t.state != State::done) return false;
    return true;
}

void release_block() {
    size_t waiting = 0, done = 0;
    for (const Thread& t : threads) {
        waiting += t.state == State::at_block_barrier;
        done += t.state == State::done;
    }
    if (waiting + done != threads.size()) return fail("deadlock: threads wait at different barriers");
    if (done) return fail("divergent __syncthreads: some threads of the block have already returned");
    for (Thread& t : threads) t.state = State::ready;
}

void run_block(size_t shared_bytes) {
    shared.reset(shared_bytes);
    if (__start_cuda_shared) memset(__start_cuda_shared, poison, size_t(__stop_cuda_shared - __start_cuda_shared));
    for (size_t i = 0; i < threads.size(); ++i) {
        const unsigned int n = unsigned(i);
        threads[i].state = State::fresh;
        threads[i].index = {n % blockDim.x, n / blockDim.x % blockDim.y, n / (blockDim.x * blockDim.y)};
    }
    begun = 0;
    for (;;) {
        run_what_can_run();
        if (!error.empty() || block_done()) break;
        if (!release_warps()) release_block();
    }
    if (error.empty() && shared.overrun()) fail("a write past the end of dynamic shared memory");
}

std::vector<unsigned int> permutation(unsigned int n, int seed) {
    std::vector<unsigned int> p(n);
    for (unsigned int i = 0; i < n; ++i) p[i] = seed == -1 ? n - 1 - i : i;
    if (seed == 0 || seed == -1) return p;
    uint64_t state = uint64_t(uint32_t(seed)) * 0x9E3779B97F4A7C15ull + 1;
    for (unsigned int i = n; i > 1; --i) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        std::swap(p[i - 1], p[(state >> 33) % i]);
    }
    return p;
}

const char* run_grid(Body what, const unsigned int* grid, const unsigned int* block, size_t shared_bytes, int seed) {
    body = what;
    gridDim = dim3(grid[0], grid[1], grid[2]);
    blockDim = dim3(block[0], block[1], block[2]);
    threads.assign(size_t(block[0]) * block[1] * block[2], Thread{});
    order = permutation(unsigned(threads.size()), seed);
    error.clear();
    for (unsigned int b : permutation(grid[0] * grid[1] * grid[2], seed)) {
        blockIdx = {b % grid[0], b / grid[0] % grid[1], b / (grid[0] * grid[1])};
        run_block(shared_bytes);
        if (error.empty()) continue;
        drop_fibers();  // threads are left hanging on them
        break;
    }
    return error.c_str();
}

// ------------------------------------------------------------------------------------------------------------ warps
unsigned int lane() { return unsigned(current & 31); }
Thread& lane_thread(unsigned int lane) { return threads[(current & ~size_t(31)) + lane]; }

void wait_for_warp(unsigned int mask) {
    if (!(mask >> lane() & 1)) stop("a thread is not in the mask of its own warp barrier");
    threads[current].mask = mask;
    suspend(State::at_warp_barrier);
}

void require_lane(unsigned int mask, unsigned int from) {
    const bool exists = (current & ~size_t(31)) + from < threads.size();
    if (!exists || !(mask >> from & 1) || lane_thread(from).state == State::done)
        stop("a shuffle reads a lane that takes no part in it");
}

// Publish, wait, read, wait.
uint64_t exchange_bits(unsigned int mask, uint64_t bits, unsigned int from) {
    threads[current].published = bits;
    wait_for_warp(mask);
    require_lane(mask, from);
    const uint64_t result = lane_thread(from).published;
    wait_for_warp(mask);
    return result;
}

unsigned int ballot(unsigned int mask, bool vote) {
    threads[current].published = vote;
    wait_for_warp(mask);
    unsigned int votes = 0;
    for (unsigned int i = 0; i < 32 && (current & ~size_t(31)) + i < threads.size(); ++i)
        if ((mask >> i & 1) && lane_thread(i).state != State::done) votes |= unsigned(lane_thread(i).published & 1) << i;
    wait_for_warp(mask);
    return votes;
}

const char* describe(const Parameter* parameters, size_t count) {
    static std::string text;
    text.clear();
    for (const Parameter* p = parameters; p != parameters + count; ++p) {
        if (p->pointer) text += char(p->pointer);
        text += p->kind + std::to_string(p->size) + " ";
    }
    return text.c_str();
}

unsigned char* dynamic_shared() { return shared.data(); }

}  // namespace cuda_on_cpu

void __syncthreads() { cuda_on_cpu::suspend(cuda_on_cpu::State::at_block_barrier); }
int __syncthreads_count(int yes) {
    cuda_on_cpu::threads[cuda_on_cpu::current].published = yes != 0;
    __syncthreads();
    int count = 0;
    for (const cuda_on_cpu::Thread& thread : cuda_on_cpu::threads) count += int(thread.published);
    __syncthreads();
    return count;
}
