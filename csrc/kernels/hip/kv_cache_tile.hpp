// The tiled scatter of kv_cache.hip (included there, inside its namespace): 64 tokens by 64 columns per block.
//
// A token alone touches one cell in every 16 bytes of the value cache. Prefill brings tokens of neighbouring slots, so the
// values of a tile are turned over in LDS: where kX tokens fill an aligned unit of slots, a lane writes its column's 16
// bytes at once (with ASM_LAYOUT 64 lanes write 1 KiB without a gap). All other tokens are written cell by cell.
// Codes of fp8 lie in LDS as words of four tokens, so that 16 tokens of a column are four words and whatever they begin in.
// Keys need no turning: 8 lanes take 8 tokens of one unit, which are 128 bytes in a row when their slots are.

inline constexpr u32 kTokens = 64;   // one per lane of a wave, so that slot facts are 64-bit masks
inline constexpr u32 kColumns = 64;  // one per lane when values are written
inline constexpr u32 kUnits = kColumns / kX;

struct tile_lds {
  alignas(16) cell value[kTokens][kColumns];  // of fp8: u32[kTokens / 4][kColumns], the code of token t in byte t % 4
  i64 base[kTokens];
  u32 offset[kTokens];
  u64 valid;    // tokens that exist and have a slot
  u64 leaders;  // those that start a run of kX slots filling an aligned unit
  u64 singles;  // those in no run
};

AP_INLINE u32 uniform(u32 x) { return __builtin_amdgcn_readfirstlane(x); }
AP_INLINE u64 uniform(u64 x) {
  return static_cast<u64>(uniform(static_cast<u32>(x >> 32))) << 32 | uniform(static_cast<u32>(x));
}

// Called by the first wave, lane = token of the tile; next: the slot of the token behind it, in this tile or not.
AP_INLINE void find_runs(tile_lds& lds, i64 slot, i64 next, sizes n) {
  u32 lane = thread_x();
  place p = split_slot(slot < 0 ? 0 : static_cast<u32>(slot), n);
  lds.base[lane] = p.base;
  lds.offset[lane] = p.offset;
  u64 valid = __builtin_amdgcn_ballot_w64(slot >= 0);
  u64 steps = __builtin_amdgcn_ballot_w64(slot >= 0 && lane < kTokens - 1 && next == slot + 1);
  u64 run = steps;  // ends as: tokens t to t + kX - 1 have neighbouring slots
#pragma unroll
  for (u32 k = 2; k < kX; ++k) run &= steps >> (k - 1);
  // A unit lies in one block only if units do not straddle blocks.
  bool whole = n.block_size % kX == 0;
  u64 leaders = whole ? run & __builtin_amdgcn_ballot_w64(slot >= 0 && p.offset % kX == 0) : 0;
  u64 covered = leaders;
#pragma unroll
  for (u32 k = 1; k < kX; k *= 2) covered |= covered << k;
  if (lane == 0) lds.valid = valid, lds.leaders = leaders, lds.singles = valid & ~covered;
}

// The code of one token in a word of four, and those of 16 tokens from t on.
AP_INLINE cell code_of(const u32 (*words)[kColumns], u32 t, u32 column) {
  return static_cast<cell>(words[t / 4][column] >> t % 4 * 8);
}

AP_INLINE line codes_of(const u32 (*words)[kColumns], u32 t, u32 column) {
  u32 first = t / 4, shift = t % 4 * 8;
  u32 held[5];
#pragma unroll
  for (u32 k = 0; k < 5; ++k) held[k] = words[first + k < kTokens / 4 ? first + k : kTokens / 4 - 1][column];
  line codes;
#pragma unroll
  for (u32 k = 0; k < 4; ++k) codes[k] = static_cast<u32>((static_cast<u64>(held[k + 1]) << 32 | held[k]) >> shift);
  return codes;
}

AP_INLINE void write_values(const tile_lds& lds, cell* __restrict__ value_cache, u32 first, sizes n) {
  u32 lane = thread_x() % kWave;
  u32 wave = uniform(thread_x() / kWave);
  u32 c = first + lane;
  const auto* words = reinterpret_cast<const u32(*)[kColumns]>(lds.value);
  if (c >= n.columns) return;
  u32 turn = 0;  // waves take turns
  for (u64 left = uniform(lds.leaders); left; left &= left - 1) {
    if (turn++ % (kThreads / kWave) != wave) continue;
    u32 t = static_cast<u32>(__builtin_ctzll(left));
    cell* to = value_cache + static_cast<i64>(uniform(static_cast<u64>(lds.base[t])));
    to += value_place(c, uniform(lds.offset[t]), n);
    if constexpr (kFp8) {
      *reinterpret_cast<line*>(to) = codes_of(words, t, lane);
    } else {
      vec<cell, kX> unit;
#pragma unroll
      for (u32 k = 0; k < kX; ++k) unit[k] = lds.value[t + k][lane];
      *reinterpret_cast<vec<cell, kX>*>(to) = unit;
    }
  }
  for (u64 left = uniform(lds.singles); left; left &= left - 1) {
    if (turn++ % (kThreads / kWave) != wave) continue;
    u32 t = static_cast<u32>(__builtin_ctzll(left));
    cell* to = value_cache + static_cast<i64>(uniform(static_cast<u64>(lds.base[t])));
    to[value_place(c, uniform(lds.offset[t]), n)] = kFp8 ? code_of(words, t, lane) : lds.value[t][lane];
  }
}

// A thread's part of the values of a tile. Of 16 bits: lines of 8 columns of a token; to fp8: 4 columns of 4 tokens.
template <bool FP8>
struct value_share {
  static constexpr u32 kLoads = kTokens * (kColumns / 8) / kThreads;
  line held[kLoads] = {};

  __device__ void load(const u16* from, i64 stride, u32 token0, u32 first, u32 tokens, sizes n) {
    u32 column = first + thread_x() % 8 * 8;  // 8 lanes take the 64 columns of one token
#pragma unroll
    for (u32 i = 0; i < kLoads; ++i) {
      u32 t = token0 + thread_x() / 8 + i * (kThreads / 8);
      if (t < tokens && column < n.columns) held[i] = *reinterpret_cast<const line*>(from + t * stride + column);
    }
  }

  __device__ void store(tile_lds& lds, float) const {
#pragma unroll
    for (u32 i = 0; i < kLoads; ++i)
      *reinterpret_cast<line*>(&lds.value[thread_x() / 8 + i * (kThreads / 8)][thread_x() % 8 * 8]) = held[i];
  }
};

template <>
struct value_share<true> {
  vec<u16, 4> held[4] = {};

  __device__ void load(const u16* from, i64 stride, u32 token0, u32 first, u32 tokens, sizes n) {
    u32 column = first + thread_x() % 16 * 4;  // 16 lanes take the 64 columns of four tokens
#pragma unroll
    for (u32 k = 0; k < 4; ++k) {
      u32 t = token0 + thread_x() / 16 * 4 + k;
      if (t < tokens && column < n.columns) held[k] = *reinterpret_cast<const vec<u16, 4>*>(from + t * stride + column);
    }
  }

  __device__ void store(tile_lds& lds, float inverse) const {
    line words;
#pragma unroll
    for (u32 j = 0; j < 4; ++j)
      words[j] = codes4(as_float(held[0][j]) * inverse, as_float(held[1][j]) * inverse, as_float(held[2][j]) * inverse,
                        as_float(held[3][j]) * inverse);
    reinterpret_cast<line*>(lds.value)[thread_x()] = words;
  }
};

using value_part = value_share<kFp8>;

AP_INLINE void scatter_tile(const u16* __restrict__ key, const u16* __restrict__ value, cell* __restrict__ key_cache,
                            cell* __restrict__ value_cache, const slot_t* __restrict__ slots, float k_scale,
                            float v_scale, u32 tokens, i64 k_stride, i64 v_stride, sizes n) {
  __shared__ tile_lds lds;
  u32 slabs = (n.columns + kColumns - 1) / kColumns;
  u32 tile = block_x() / slabs;
  u32 first = (block_x() - tile * slabs) * kColumns;
  u32 token0 = tile * kTokens;
  u32 tid = thread_x();

  i64 slot = -1, next = -1;
  if (tid < kTokens && token0 + tid < tokens) {
    slot = slots[token0 + tid];
    next = slots[token0 + tid + 1 < tokens ? token0 + tid + 1 : token0 + tid];
  }

  // All loads are issued before the first one is waited for.
  value_part part;
  part.load(value, v_stride, token0, first, tokens, n);
  constexpr u32 key_loads = kTokens * kUnits / kThreads;
  constexpr u32 key_lines = kX / 8;  // 16-byte loads of a unit
  line held[key_loads][key_lines] = {};
  u32 unit = first + tid / 8 % kUnits * kX;  // tid: 8 tokens, then kUnits units, then tokens again
  auto key_token = [tid](u32 i) { return (tid / 8 / kUnits + i * (kThreads / 8 / kUnits)) * 8 + tid % 8; };
#pragma unroll
  for (u32 i = 0; i < key_loads; ++i) {
    u32 t = token0 + key_token(i);
    if (t < tokens && unit < n.columns) {
      const u16* from = key + t * k_stride + unit;
#pragma unroll
      for (u32 k = 0; k < key_lines; ++k) held[i][k] = *reinterpret_cast<const line*>(from + k * 8);
    }
  }
  // Not before: what divides waits for the scales.
  float k_inverse = 1.0f / k_scale, v_inverse = 1.0f / v_scale;
  if (tid < kWave) find_runs(lds, slot, next, n);
  part.store(lds, v_inverse);
#pragma unroll
  for (u32 i = 0; i < key_loads; ++i) held[i][0] = to_unit(held[i], k_inverse);
  block_sync();

  u64 valid = uniform(lds.valid);
#pragma unroll
  for (u32 i = 0; i < key_loads; ++i) {
    u32 t = key_token(i);
    if ((valid >> t & 1) && unit < n.columns) {
      *reinterpret_cast<line*>(key_cache + lds.base[t] + key_place(unit, lds.offset[t], n)) = held[i][0];
    }
  }
  write_values(lds, value_cache, first, n);
}
