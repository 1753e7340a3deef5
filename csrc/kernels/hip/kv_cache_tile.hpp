// The tiled scatter of kv_cache.hip (included there, inside its namespace): 64 tokens by 64 columns per block.
//
// A token alone touches one cell in every 16 bytes of the value cache. Prefill brings tokens of neighbouring slots, so the
// values of a tile are turned over in LDS: where kX tokens fill an aligned unit of slots, a lane writes its column's 16
// bytes at once (with ASM_LAYOUT 64 lanes write 1 KiB without a gap). All other tokens are written cell by cell.
// Keys need no turning: 8 lanes take 8 tokens of one unit, which are 128 bytes in a row when their slots are.

inline constexpr u32 kTokens = 64;   // one per lane of a wave, so that slot facts are 64-bit masks
inline constexpr u32 kColumns = 64;  // one per lane when values are written
inline constexpr u32 kUnits = kColumns / kX;

struct tile_lds {
  alignas(16) cell value[kTokens][kColumns];
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

// Value of the next lane; lane 63 gets its own.
AP_INLINE i64 next_lane(i64 x) {
  u32 lane = thread_x() % kWave;
  int from = static_cast<int>((lane < 63 ? lane + 1 : 63) * 4);
  u32 lo = __builtin_amdgcn_ds_bpermute(from, static_cast<int>(x));
  u32 hi = __builtin_amdgcn_ds_bpermute(from, static_cast<int>(x >> 32));
  return static_cast<i64>(static_cast<u64>(hi) << 32 | lo);
}

// Called by the first wave, lane = token of the tile.
AP_INLINE void find_runs(tile_lds& lds, i64 slot, sizes n) {
  u32 lane = thread_x();
  place p = split_slot(slot < 0 ? 0 : static_cast<u32>(slot), n);
  lds.base[lane] = p.base;
  lds.offset[lane] = p.offset;
  u64 valid = __builtin_amdgcn_ballot_w64(slot >= 0);
  i64 next = next_lane(slot);
  u64 steps = __builtin_amdgcn_ballot_w64(slot >= 0 && next == slot + 1);  // lane 63 never steps
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

AP_INLINE void write_values(const tile_lds& lds, cell* __restrict__ value_cache, u32 first, sizes n) {
  u32 lane = thread_x() % kWave;
  u32 wave = uniform(thread_x() / kWave);
  u32 c = first + lane;
  if (c >= n.columns) return;
  u32 turn = 0;  // waves take turns
  for (u64 left = uniform(lds.leaders); left; left &= left - 1) {
    if (turn++ % (kThreads / kWave) != wave) continue;
    u32 t = static_cast<u32>(__builtin_ctzll(left));
    vec<cell, kX> unit;
#pragma unroll
    for (u32 k = 0; k < kX; ++k) unit[k] = lds.value[t + k][lane];
    cell* to = value_cache + static_cast<i64>(uniform(static_cast<u64>(lds.base[t])));
    *reinterpret_cast<vec<cell, kX>*>(to + value_place(c, uniform(lds.offset[t]), n)) = unit;
  }
  for (u64 left = uniform(lds.singles); left; left &= left - 1) {
    if (turn++ % (kThreads / kWave) != wave) continue;
    u32 t = static_cast<u32>(__builtin_ctzll(left));
    cell* to = value_cache + static_cast<i64>(uniform(static_cast<u64>(lds.base[t])));
    to[value_place(c, uniform(lds.offset[t]), n)] = lds.value[t][lane];
  }
}

AP_INLINE void scatter_tile(const u16* __restrict__ key, const u16* __restrict__ value, cell* __restrict__ key_cache,
                            cell* __restrict__ value_cache, const slot_t* __restrict__ slots, float k_inverse,
                            float v_inverse, u32 tokens, i64 k_stride, i64 v_stride, sizes n) {
  __shared__ tile_lds lds;
  u32 slabs = (n.columns + kColumns - 1) / kColumns;
  u32 tile = block_x() / slabs;
  u32 first = (block_x() - tile * slabs) * kColumns;
  u32 token0 = tile * kTokens;
  u32 tid = thread_x();

  i64 slot = -1;
  if (tid < kTokens && token0 + tid < tokens) slot = slots[token0 + tid];

  // All loads are issued before the first one is waited for.
  constexpr u32 value_loads = kTokens * (kColumns / 8) / kThreads;
  u32 vc = tid % 8 * 8;  // 8 lanes take the 64 columns of one token
  line turned[value_loads] = {};
#pragma unroll
  for (u32 i = 0; i < value_loads; ++i) {
    u32 t = token0 + tid / 8 + i * (kThreads / 8);
    if (t < tokens && first + vc < n.columns) {
      turned[i] = *reinterpret_cast<const line*>(value + t * v_stride + first + vc);
    }
  }
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
#pragma unroll
  for (u32 i = 0; i < value_loads; ++i) {
    line cells = to_cells(turned[i], v_inverse);
    void* to = &lds.value[tid / 8 + i * (kThreads / 8)][vc];
    if constexpr (kFp8) *static_cast<vec<u32, 2>*>(to) = {cells.x, cells.y};
    else *static_cast<line*>(to) = cells;
  }
  if (tid < kWave) find_runs(lds, slot, n);
  block_sync();

  u64 valid = uniform(lds.valid);
#pragma unroll
  for (u32 i = 0; i < key_loads; ++i) {
    u32 t = key_token(i);
    if ((valid >> t & 1) && unit < n.columns) {
      *reinterpret_cast<line*>(key_cache + lds.base[t] + key_place(unit, lds.offset[t], n)) = to_unit(held[i], k_inverse);
    }
  }
  write_values(lds, value_cache, first, n);
}
