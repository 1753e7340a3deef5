// Causal convolution of each channel along its tokens, with a state of its last inputs: prompts and single steps.
//
//   y[t, c] = bias[c] + sum over j < width of weight[c, j] * x[t - width + 1 + j, c]     fp32, rounded once
//   out     = y, or y / (1 + exp(-y)) if `silu`
//
// What lies before the first token is the channel's state; afterwards the state holds the last inputs. A lane owns N channels and
// reads and writes their state alone, so nothing waits for another lane.
//
// Build:  T = bf16 | f16 | f32     element type of x, out and state
//         W = bf16 | f16 | f32     element type of weight and bias
//         WIDE = 1                 N channels of a lane lie side by side in 16 bytes of x, out and state; weight is contiguous
//         WIDE = 0                 N = 1, any strides
// Launch: causal_conv1d_update: grid (sequences, cdiv(channels, 64 * N)); causal_conv1d_fn: grid (cdiv(longest, 16), sequences,
//         cdiv(channels, 64 * N)). Block x = 64. Width 2 to 4; strides are in elements.
#include "causal_conv1d.hpp"

namespace ap {

inline constexpr i32 kChunk = 16;  // tokens of a block
inline constexpr i32 kAhead = 4;   // of which so many are loaded at once

// One sequence of `tokens` inputs; its state holds `held` inputs, the newest last, or behind `seen` of them if it goes round.
template <i32 WIDTH>
AP_INLINE void update(filter<WIDTH>& f, elem* __restrict__ out, elem* __restrict__ state, const elem* __restrict__ x,
                      i32 tokens, i32 held, const i32* seen, bool silu, i64 out_token, i64 state_token, i64 x_token) {
  i32 place = 0;
  if (seen) {
    place = *seen % held;
    place = place < 0 ? place + held : place;
  }
#pragma unroll
  for (i32 j = 0; j < WIDTH - 1; ++j) {
    i32 from = (seen ? place : held) - (WIDTH - 1) + j;
    f.before[j] = load(state + (from < 0 ? from + held : from) * state_token);
  }
  if (!seen) {
    for (i32 i = 0; i < held - (WIDTH - 1); ++i) {
      i32 from = i + tokens;
      store(state + i * state_token, load(from < held ? state + from * state_token : x + (from - held) * x_token));
    }
  }
  for (i32 t = 0; t < tokens; ++t) {
    pack input = load(x + t * x_token);
    store(out + t * out_token, f.next(input, silu));
    if (seen) {
      store(state + place * state_token, input);
      place = place + 1 == held ? 0 : place + 1;
    }
  }
  if (!seen) {
#pragma unroll
    for (i32 j = 0; j < WIDTH - 1; ++j) store(state + (held - (WIDTH - 1) + j) * state_token, f.before[j]);
  }
}

// Inputs [begin, end) of a sequence that begins at x; those before the sequence are its state where it has one, else 0. The block
// that has the first of them writes the state: nobody else reads it.
template <i32 WIDTH>
AP_INLINE void prompt(filter<WIDTH>& f, elem* __restrict__ out, elem* __restrict__ state, const elem* __restrict__ x,
                      i32 begin, i32 end, i32 tokens, bool has_state, bool silu, i64 out_token, i64 state_token,
                      i64 x_token) {
#pragma unroll
  for (i32 j = 0; j < WIDTH - 1; ++j) {
    i32 from = begin - (WIDTH - 1) + j;
    f.before[j] = pack{};
    if (from >= 0)
      f.before[j] = load(x + from * x_token);
    else if (has_state)
      f.before[j] = load(state + (from + WIDTH - 1) * state_token);
  }
  if (begin == 0) {
    pack last[WIDTH - 1];
#pragma unroll
    for (i32 j = 0; j < WIDTH - 1; ++j) {
      i32 from = tokens - (WIDTH - 1) + j;
      last[j] = pack{};
      if (from >= 0)
        last[j] = load(x + from * x_token);
      else if (has_state)
        last[j] = load(state + (from + WIDTH - 1) * state_token);
    }
#pragma unroll
    for (i32 j = 0; j < WIDTH - 1; ++j) store(state + j * state_token, last[j]);
  }
  for (i32 t = begin; t < end; t += kAhead) {
    pack inputs[kAhead];
#pragma unroll
    for (i32 j = 0; j < kAhead; ++j) inputs[j] = load(x + (t + j < end ? t + j : end - 1) * x_token);
#pragma unroll
    for (i32 j = 0; j < kAhead; ++j) {
      pack result = f.next(inputs[j], silu);
      if (t + j < end) store(out + (t + j) * out_token, result);
    }
  }
}

}  // namespace ap

// x, out [sequences, channels, tokens]; state [slots, channels, held]; weight [channels, width]; bias [channels], seen and slot_of
// [sequences], null where there are none. A sequence of the slot `pad`, or of none that there is, is left alone.
AP_KERNEL(64)
void causal_conv1d_update(ap::elem* __restrict__ out, ap::elem* __restrict__ state, const ap::elem* __restrict__ x,
                          const ap::weight_t* __restrict__ weight, const ap::weight_t* __restrict__ bias,
                          const ap::i32* __restrict__ seen, const ap::i32* __restrict__ slot_of, ap::i32 biases,
                          ap::i32 lengths, ap::i32 indices, ap::i32 channels, ap::i32 tokens, ap::i32 width,
                          ap::i32 slots, ap::i32 held, ap::i32 pad, ap::i32 silu, ap::i64 x_b, ap::i64 x_c, ap::i64 x_l,
                          ap::i64 s_s, ap::i64 s_c, ap::i64 s_l, ap::i64 o_b, ap::i64 o_c, ap::i64 o_l, ap::i64 w_c,
                          ap::i64 w_l) {
  using namespace ap;
  i64 row = block_x(), channel = (static_cast<i64>(block_y()) * kWave + thread_x()) * N;
  if (channel >= channels) return;
  i32 slot = indices ? slot_of[row] : static_cast<i32>(row);
  if (slot == pad || slot < 0 || slot >= slots) return;
  places of_x{x_b, x_c, x_l}, of_state{s_s, s_c, s_l}, of_out{o_b, o_c, o_l};
  const elem* in = at(x, of_x, row, channel);
  elem *kept = at(state, of_state, slot, channel), *to = at(out, of_out, row, channel);
  auto run = [&](auto f) {
    f.read(weight, biases ? bias : nullptr, channel, w_c, w_l);
    update(f, to, kept, in, tokens, held, lengths ? seen + row : nullptr, silu != 0, o_l, s_l, x_l);
  };
  if (width == 4)
    run(filter<4>{});
  else if (width == 3)
    run(filter<3>{});
  else
    run(filter<2>{});
}

// x, out [channels, total]; sequence s has the tokens [starts[s], starts[s + 1]); state [slots, channels, at least width - 1], of
// which the first width - 1 are used; slot_of, has_state (a bool each) and bias are null where there are none.
AP_KERNEL(64)
void causal_conv1d_fn(ap::elem* __restrict__ out, ap::elem* __restrict__ state, const ap::elem* __restrict__ x,
                      const ap::weight_t* __restrict__ weight, const ap::weight_t* __restrict__ bias,
                      const ap::i32* __restrict__ starts, const ap::i32* __restrict__ slot_of,
                      const ap::u8* __restrict__ has_state, ap::i32 channels, ap::i32 total, ap::i32 width,
                      ap::i32 slots, ap::i32 pad, ap::i32 silu, ap::i64 x_c, ap::i64 x_l, ap::i64 s_s, ap::i64 s_c,
                      ap::i64 s_l, ap::i64 o_c, ap::i64 o_l, ap::i64 w_c, ap::i64 w_l) {
  using namespace ap;
  i64 row = block_y(), channel = (static_cast<i64>(block_z()) * kWave + thread_x()) * N;
  if (channel >= channels) return;
  i32 slot = slot_of ? slot_of[row] : static_cast<i32>(row);
  if (slot == pad || slot < 0 || slot >= slots) return;
  i32 first = starts[row], behind = starts[row + 1];
  if (first < 0 || behind > total) return;
  i32 tokens = behind - first, begin = static_cast<i32>(block_x()) * kChunk;
  i32 end = begin + kChunk < tokens ? begin + kChunk : tokens;
  if (begin >= end) return;
  places of_x{x_l, x_c, x_l}, of_state{s_s, s_c, s_l}, of_out{o_l, o_c, o_l};
  const elem* in = at(x, of_x, first, channel);
  elem *kept = at(state, of_state, slot, channel), *to = at(out, of_out, first, channel);
  bool has = has_state && has_state[row];
  auto run = [&](auto f) {
    f.read(weight, bias, channel, w_c, w_l);
    prompt(f, to, kept, in, begin, end, tokens, has, silu != 0, o_l, s_l, x_l);
  };
  if (width == 4)
    run(filter<4>{});
  else if (width == 3)
    run(filter<3>{});
  else
    run(filter<2>{});
}
