//! The costs of misses and of moves.

use nodeward_model::NodeId;
use nodeward_model::topology::Distances;

use crate::rank::REMOTE_DISTANCE;

/// The distance of a node to itself in the firmware's units.
const LOCAL_DISTANCE: u32 = 10;
/// Larger than any firmware distance (8 bits), so that sums of latencies fit 128 bits.
const DISTANCE_MAX: u32 = u16::MAX as u32;
/// The latency of a miss to local memory: between 65 and 120 ns on servers of the last twenty
/// years. Only its ratio to the cost of a move matters.
const LOCAL_NS: u32 = 100;
const LINE_BYTES: u64 = 64;

/// The costs of misses and moves.
#[derive(Clone, Debug)]
pub struct MissCosts {
    /// The latency of a miss at distance 10, in nanoseconds.
    pub local_ns: u32,
    /// The distances between nodes; without them every other node is at distance 20.
    pub distances: Option<Distances>,
    /// The overhead of moving a folio, without the copy of its lines, in nanoseconds.
    pub admin_ns: u64,
    /// Bytes that one miss transfers; 64 on most machines.
    pub line_bytes: u64,
}

impl MissCosts {
    /// Returns the costs of a machine of which only the distances are known. `admin_ns` is the
    /// overhead of moving a folio, without the copy of its lines.
    pub fn typical(distances: Option<Distances>, admin_ns: u64) -> Self {
        Self { local_ns: LOCAL_NS, distances, admin_ns, line_bytes: LINE_BYTES }
    }

    /// Returns the cost of a miss of a CPU on `node`, in tenths of nanoseconds.
    pub(super) fn latency(&self, node: NodeId, memory: NodeId) -> u64 {
        let unknown = if node == memory { LOCAL_DISTANCE } else { REMOTE_DISTANCE };
        let known = self.distances.as_ref().and_then(|table| table.get(node, memory));
        u64::from(self.local_ns) * u64::from(known.unwrap_or(unknown).min(DISTANCE_MAX))
    }

    /// Returns the cost of moving a folio: the CPUs that copy are on the destination and read every
    /// line from the source.
    pub(super) fn move_ns(&self, bytes: u64, from: NodeId, to: NodeId) -> u64 {
        let lines = u128::from(bytes).div_ceil(u128::from(self.line_bytes.max(1)));
        let copy = lines.saturating_mul(u128::from(self.latency(to, from)));
        saturating_u64(copy.div_ceil(10)).saturating_add(self.admin_ns)
    }
}

pub(super) fn saturating_u64(number: u128) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
