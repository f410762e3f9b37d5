//! The bounds of the agent. Settings change only what moves may cost.

use std::time::Duration;

/// Bytes of a request: an order with a thousand ranges has 60 kB. Parsing that takes less than a
/// millisecond, for which all others wait.
pub const MESSAGE_BYTES_MAX: usize = 128 << 10;
/// Connections of all users. Each needs a descriptor, and its memory is bounded by the above.
pub const CONNECTIONS_MAX: usize = 512;
/// Connections of a user other than root.
pub const CONNECTIONS_OF_USER_MAX: usize = 64;
/// Connections that only root may use, so that root can always ask and cancel.
pub const CONNECTIONS_FOR_ROOT: usize = 32;
/// Time in which a request that has begun must be complete, and a reply must be read.
pub const CLIENT_TIMEOUT: Duration = Duration::from_secs(10);
/// Requests of all users that wait for a lane.
pub const WAITING_MAX: usize = 128;
/// Requests of one user in lanes, waiting or in work.
pub const WAITING_OF_USER_MAX: usize = 8;
/// Threads that look at memory. One more takes orders.
pub const LOOKERS: usize = 2;
/// Time of one look at the memory of a process, in nanoseconds.
pub const LOOK_NS_MAX: u64 = 5_000_000_000;
/// Mappings and runs of pages of a placement that is saved; some 200 bytes each for a moment.
pub const PIECES_MAX: usize = 50_000;
/// Moves under way, of all users. Each has a thread of its own, and workers.
pub const MOVES_MAX: usize = 16;
/// Workers of a move of a user other than root.
pub const WORKERS_OF_USER_MAX: usize = 4;
/// Workers of any move.
pub const WORKERS_MAX: u32 = 64;
/// Processes of one order.
pub const PROCESSES_MAX: usize = 64;
/// Ranges of one order.
pub const RANGES_MAX: usize = 1_000;
/// Groups of one user other than root.
pub const GROUPS_OF_USER_MAX: usize = 256;
/// Pieces of memory in the groups of one user other than root.
pub const PIECES_OF_USER_MAX: usize = 16_384;
/// Threads or pieces of memory that one request may name, and pieces of a process in one group.
pub const MEMBERS_MAX: usize = 4096;
/// Time for which the account of a move is kept.
pub const ACCOUNT_KEPT: Duration = Duration::from_secs(600);
/// Latest accounts that are kept for one user.
pub const ACCOUNTS_OF_USER_MAX: usize = 32;
/// Processes that metrics may name: each has a series for each node with memory of it, and two.
pub const METRICS_PROCESSES_MAX: usize = 100;
/// Time between two reports of progress.
pub const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// Limits of the moves of one user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MoveLimits {
    /// Moves under way at a time.
    pub moves_of_user: usize,
    /// Bytes a second that the moves of one user move together; no limit if `None`.
    pub rate_of_user: Option<u64>,
    /// Time that a plan may take, in nanoseconds.
    pub look_ns: u64,
}

impl Default for MoveLimits {
    fn default() -> Self {
        Self { moves_of_user: 2, rate_of_user: Some(1 << 30), look_ns: LOOK_NS_MAX }
    }
}

impl MoveLimits {
    /// Returns the rate of one of the moves: an even part, so that the sum holds whatever the
    /// others do.
    pub fn rate_of_move(&self) -> Option<u64> {
        self.rate_of_user.map(|rate| (rate / self.moves_of_user.max(1) as u64).max(1))
    }
}
