//! Placement: which node each process belongs to, which of its threads go there, and which memory.
//!
//! After the home nodes of 2012 (sched/numa). Homes are few decisions that last. Threads follow
//! them at once, because that is cheap; memory follows where that pays. docs/explanation/placement.md
//! has the reasons behind the rule; this is the rule. Numbers are the defaults of [`Rules`].
//!
//! ```text
//!     Snapshot: nodes; threads with their load; pages by node          snapshot
//!        |
//!        v
//!     each entity: load, candidates, or why it gets no home            entity, mean_load
//!        |           each node: share, limit, capacity                 node_table, node_usage
//!        v
//!     1 keep homes that still do ---------> 2 initial placement        keep, initial, spread
//!        |                                     |    what does it cost? cost_model
//!        v                                     v
//!     3 rebalance -> 4 relieve memory -> 5 interleave, deinterleave    rebalance, relieve, interleave
//!        |
//!        v
//!     6 thread moves ---------------------> 7 memory moves             thread_moves, memory_moves
//!        |                                     |    did it help?       feedback
//!        v                                     v
//!     8 Plan: homes, nudges, moves, a reason for each entity           plan, reason, report
//! ```
//!
//! [`Homes::decide`] calls the stages in this order. [`Homes::thread_moves`] calls stage 6 alone:
//! a fast round brings threads back and decides nothing anew. What is kept between rounds is
//! [`Homes`] (`state`).
//!
//! Words: *load* is the CPU time that threads had and waited for. A node's *share* is its CPUs' part
//! of the load of the machine, its *limit* the share + 10 %, and never less than 25 % of its CPUs.
//! *Margin* is 10 %. *Gain* is what a move saves within the horizon (10 to 60 s, by age), *cost* what
//! it takes.
//!
//! # An entity
//!
//! | state | enters when | leaves when | holds for | backs off how |
//! |---|---|---|---|---|
//! | no home | CPU time < 1 s; excluded; a launcher; no node will do | none of it | - | - |
//! | on one node | placed: cheapest node with load <= share + 5 % and memory for it; else <= limit; else without memory; else the idlest | node gone: at once. Stage 3 or 4 takes it. Parallel and load > 1.21 x node: placed anew | 10 s | doubles with each change, halves after calm of 4 holds |
//! | spread over the fewest nodes | placed: parallel and load > 1.1 x each candidate; or memory > each; or it would crowd the best | 1.21 x load (or one thread's) and 1.21 x memory fit each of its nodes. Without a hold: nearly all memory on one node with time for it, not parallel | 10 s | the same |
//! | interleaved | stage 5: its node is saturated, it makes > half of the load there, gain > cost | its node has recovered, there is room, gain > cost | 10 s, then not again for 160 s | doubles |
//!
//! # A node
//!
//! | state | enters when | leaves when | holds for | backs off how |
//! |---|---|---|---|---|
//! | busy (3) | load at home > limit, for 5 s | it is not | - | must last twice as long after each that ended early, up to 80 s |
//! | short home (4) | pages at home > what homes can have there, for 5 s | it is not | - | the same |
//! | saturated (5) | its controller delivers >= 90 %, for 5 s | it does not | - | the same |
//! | recovered (5) | controllers of what is interleaved for it deliver < 45 % together, for 5 s | they do not | - | the same |
//! | closed for memory (7) | < 1 % of memory free, or > 0.1 % spilled to other nodes | neither | - | - |
//!
//! # All nodes
//!
//! | state | enters when | leaves when | holds for | backs off how |
//! |---|---|---|---|---|
//! | rebalance paused (3) | 5 s after a rebalance the busiest node is not less busy by 10 % | the pause is over | 40 s | doubles |
//! | no memory moves (7) | tasks stand still for memory > 10 % of the time | they do not | - | - |
//!
//! # What is away from home
//!
//! | state | enters when | leaves when | holds for | backs off how |
//! |---|---|---|---|---|
//! | thread nudged (6) | it wants >= 1 % of a CPU; not the lightest where home would be crowded | it is home | - | - |
//! | memory moves (7) | gain > cost; best ratio first, into room - 2 % | all is home | until it is sampled again | - |
//! | memory waits | a move began | the move took >= 1/16 and more is away, or the wait is over | 2 s | doubles, up to 64 s |
//! | memory given up | five moves in a row each took < 1/16 | what is away halves or doubles | - | - |
//! | memory doubted | no move paid for 5 s | gain > 1.25 x cost for 5 s | - | - |
//!
//! Why moving ends: a home goes to a node that is then still less busy by the margin, so under a
//! constant load the list of node loads, greatest first, becomes smaller with each move. Memory
//! goes to its home only. What a load that never rests brings about waits twice as long each time
//! ([`damping`](crate::damping)).

pub mod case;
mod cost_model;
mod entity;
mod feedback;
mod home;
mod initial;
mod interleave;
mod keep;
mod mean_load;
mod memory_moves;
mod node_table;
mod node_usage;
mod plan;
mod reason;
mod rebalance;
mod relieve;
mod report;
mod round;
mod rules;
mod snapshot;
mod spread;
mod state;
mod thread_moves;

pub use home::Home;
pub use plan::{Decision, MemoryMove, NodeSum, Nudge, Numbers, Plan, Verdict};
pub use reason::Reason;
pub use rules::Rules;
pub use snapshot::{
    Affinity, Entity, EntityId, Exclusion, NodeState, Snapshot, Thread, wanted_ppm,
};
pub use state::Homes;

use entity::EntityRound;
use home::Placement;
use node_table::NodeTable;
use round::Round;

impl Homes {
    /// Decides about every entity of a snapshot. Entities that are no longer in it are forgotten.
    pub fn decide(&mut self, snapshot: &Snapshot, rules: &Rules) -> Plan {
        let nodes = &NodeTable::new(snapshot, rules);
        let mut entities = EntityRound::all(snapshot, nodes);
        let elapsed_ns = self.pass(snapshot.at_ns, &mut entities, rules);
        let mut round = Round::new(nodes, entities, elapsed_ns);
        let homeless = keep::keep_homes(&mut round, self);
        initial::place(&mut round, self, &homeless);
        // All states of nodes are those before any home is moved.
        let busy = rebalance::busy_nodes(&round, self);
        let short = relieve::short_nodes(&round, self);
        rebalance::rebalance(&mut round, self, &busy);
        relieve::relieve_memory(&mut round, &short);
        interleave::interleave(&mut round, self);
        self.note_changes(&mut round);
        let nudges = thread_moves::plan(nodes, &mut round.entities);
        let moves = memory_moves::plan(&mut round, self);
        report::plan(round, self, nudges, moves)
    }

    /// Which threads are to be brought to homes as they are. Nothing is decided anew, and nothing
    /// is learnt: the plan has homes and nudges only.
    pub fn thread_moves(&self, snapshot: &Snapshot, rules: &Rules) -> Plan {
        let nodes = &NodeTable::new(snapshot, rules);
        let mut entities = EntityRound::all(snapshot, nodes);
        for entity in &mut entities {
            let home = self.home(entity.id()).filter(|_| keep::is_eligible(entity, true));
            entity.placement = home.and_then(|home| Placement::of(home, entity, nodes));
        }
        let nudges = thread_moves::plan(nodes, &mut entities);
        Plan { homes: report::homes_of(&entities, nodes), nudges, ..Plan::default() }
    }
}
