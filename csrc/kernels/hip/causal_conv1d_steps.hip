// A step of causal convolutions in place: inputs of one token or a few become results, behind states that know what was accepted.
//
//   y[t, c] = bias[c] + sum over j < width of weight[c, j] * x[t - width + 1 + j, c]     fp32, rounded once
//   x       = y, or y / (1 + exp(-y)) if `silu`
//
// The first places of a state are used. Without `accepted` they are the last width - 1 inputs, before and after. With it a sequence
// begins behind the inputs at the place accepted - 1 and the width - 2 behind that; afterwards the state holds the newest width - 2
// of these and all inputs of this step, so that the next one may drop those that were drafted in vain.
//
// Build:  T, W, WIDE as of causal_conv1d.hip
// Launch: grid (sequences, cdiv(channels, 64 * N)), block x = 64. Width 2 to 4; strides are in elements.
#include "causal_conv1d.hpp"

namespace ap {

// Inputs of one sequence; `window` keeps the inputs before the next token, of each token up to `steps`.
template <i32 WIDTH>
AP_INLINE void advance(filter<WIDTH>& f, elem* x, elem* state, elem* window, i32 tokens, i32 first, bool drafts,
                       i32 steps, bool silu, i64 x_token, i64 state_token, i64 of_step, i64 of_channel, i64 of_place) {
#pragma unroll
  for (i32 j = 0; j < WIDTH - 1; ++j) f.before[j] = load(state + (first + j) * state_token);
  if (drafts) {
#pragma unroll
    for (i32 j = 0; j < WIDTH - 2; ++j) store(state + j * state_token, f.before[j + 1]);
  }
  for (i32 t = 0; t < tokens; ++t) {
    pack input = load(x + t * x_token);
    store(x + t * x_token, f.next(input, silu));
    if (drafts) store(state + (WIDTH - 2 + t) * state_token, input);
    if (t >= steps) continue;
#pragma unroll
    for (i32 j = 0; j < WIDTH - 1; ++j) {
#pragma unroll
      for (u32 i = 0; i < N; ++i) window[t * of_step + i * of_channel + j * of_place] = f.before[j][i];
    }
  }
  if (drafts) return;
#pragma unroll
  for (i32 j = 0; j < WIDTH - 1; ++j) store(state + j * state_token, f.before[j]);
}

}  // namespace ap

// x [sequences, channels, tokens], or [1, channels, total] where sequence s has the tokens [starts[s], starts[s + 1]); state [slots,
// channels, held]; window [slots, steps, channels, width - 1] or null; weight [channels, width]; bias, slot_of, accepted and starts
// are null where there are none. A sequence of the slot `pad`, or of none that there is, is left alone.
AP_KERNEL(64)
void causal_conv1d_steps(ap::elem* x, ap::elem* state, ap::elem* window, const ap::weight_t* __restrict__ weight,
                         const ap::weight_t* __restrict__ bias, const ap::i32* __restrict__ slot_of,
                         const ap::i32* __restrict__ accepted, const ap::i32* __restrict__ starts, ap::i32 channels,
                         ap::i32 tokens, ap::i32 width, ap::i32 slots, ap::i32 held, ap::i32 steps, ap::i32 pad,
                         ap::i32 silu, ap::i64 x_b, ap::i64 x_c, ap::i64 x_l, ap::i64 s_s, ap::i64 s_c, ap::i64 s_l,
                         ap::i64 w_c, ap::i64 w_l, ap::i64 i_n, ap::i64 d_s, ap::i64 d_t, ap::i64 d_c, ap::i64 d_l) {
  using namespace ap;
  i64 row = block_x(), channel = (static_cast<i64>(block_y()) * kWave + thread_x()) * N;
  if (channel >= channels) return;
  i32 slot = slot_of ? slot_of[row * i_n] : static_cast<i32>(row);
  if (slot == pad || slot < 0 || slot >= slots) return;
  i32 begin = 0;
  if (starts) {
    begin = starts[row];
    i32 end = starts[row + 1];
    if (begin < 0 || end > tokens) return;
    tokens = end - begin;
  }
  if (tokens <= 0) return;
  i32 last = held - (width - 1), first = accepted ? accepted[row] - 1 : 0;
  first = first < 0 ? 0 : first > last ? last : first;
  if (accepted && width - 2 + tokens > held) tokens = held - (width - 2);  // no place for more
  places of_x{x_b, x_c, x_l}, of_state{s_s, s_c, s_l};
  elem *in = at(x, of_x, starts ? 0 : row, channel) + begin * x_l, *kept = at(state, of_state, slot, channel);
  elem* seen = window ? window + slot * d_s + channel * d_c : nullptr;
  auto run = [&](auto f) {
    f.read(weight, bias, channel, w_c, w_l);
    advance(f, in, kept, seen, tokens, first, accepted != nullptr, window ? steps : 0, silu != 0, x_l, s_l, d_t, d_c,
            d_l);
  };
  if (width == 4)
    run(filter<4>{});
  else if (width == 3)
    run(filter<3>{});
  else
    run(filter<2>{});
}
