//! Placement: which node each process belongs to, which of its threads go there, and which memory.
//!
//! After the home nodes of 2012 (sched/numa). Homes are few decisions that last. Threads follow
//! them at once, because that is cheap; memory follows where that pays. This is the rule;
//! docs/explanation/placement.md has the reasons behind it. Numbers are the defaults of [`Rules`].
//!
//! ```text
//!     Snapshot: nodes; threads with their load; pages by node       snapshot
//!        |
//!        v
//!     each entity: load, candidates, or why it gets no home         entity, mean_load
//!        |           each node: share, limit, capacity              node_table, node_usage
//!        v
//!     1 keep homes that still do -------> 2 initial placement       keep, initial, spread
//!        |                                     |  at what cost?     cost_model
//!        v                                     v
//!     3 follow threads, rebalance --> 4 relieve memory      crowded_out, rebalance, relieve
//!        |
//!        v
//!     5 interleave, deinterleave                                    interleave, controllers
//!        |           processes go where their threads' groups are   with_groups
//!        v
//!     6 thread moves -------------------> 7 memory moves            thread_moves, memory_moves
//!        |                                     |  did it help?      even, feedback
//!        v                                     v
//!                                       8 segments                  segments, segment_history
//!                                          |
//!                                          v
//!     9 Plan: homes, nudges, moves, a reason for each entity        plan, reason, report
//! ```
//!
//! [`Homes::decide`] calls the stages in this order. [`Homes::thread_moves`] calls stage 6 alone: a
//! fast round brings threads back and decides nothing anew. [`Homes`] is kept between rounds.
//!
//! *Load* is the CPU time that threads had and waited for. A node's *share* is its CPUs' part of
//! the load of the machine; its *limit* is the share + 10 %, and never less than 25 % of its CPUs.
//! An entity is *parallel* if one CPU is too few for its threads; its *size* is its load while it
//! works. *Gain* is what a move saves within the horizon (10 to 60 s, by age), *cost* what it
//! takes. What *doubles* does so each time, and halves after a calm of four times as long. The
//! number in front of a condition is the stage that asks.
//!
//! A process on its way: the balancer's `ProcessState` holds what a machine last told of it
//! (`model::ProcessSnapshot`). Of that the balancer makes an [`Entity`], the input here, because
//! this crate knows no machine, and because groups are entities, too. `EntityRound` borrows it for
//! a round and adds what the stages find; `EntityState` is what [`Homes`] keeps of it between
//! rounds; [`Decision`] is the output, which the balancer's report holds as it is. A node:
//! [`NodeState`] is the input, which `NodeTable` borrows; `NodeUsage` is what is at home there, as
//! the stages change it; [`NodeSum`] is the output.
//!
//! # An entity
//!
//! ```text
//! state        | enters when                  | leaves when                | holds     | backs off
//! -------------+------------------------------+----------------------------+-----------+----------
//! no home      | CPU time < 1 s, and no home  | none of it is true         |           |
//!              | was set; excluded; all its   |                            |           |
//!              | threads are in groups; a     |                            |           |
//!              | launcher; no node will do;   |                            |           |
//!              | the kernel moves its pages   |                            |           |
//!              |                              |                            |           |
//! on one node  | 2: it gets the cheapest node | its node is gone: at once. | 10 s, not | doubles
//!              | with load <= share + 5 % and | 3 or 4 moves its home.     | if its    |
//!              | memory for it; else with     | 3: threads stay away for   | node is   |
//!              | load <= limit and memory;    | 5 s of work: it follows.   | gone      |
//!              | else with load <= limit;     | Parallel, and size > 1.21  |           |
//!              | else the idlest              | x the node: placed anew    |           |
//!              |                              |                            |           |
//! spread       | 2: parallel, and size > 1.1  | 1.21 x size (or one        | 10 s      | the same
//!              | x each candidate; memory >   | thread's) and 1.21 x       |           |
//!              | each; or it would crowd the  | memory fit each node. Held |           |
//!              | best. It gets the fewest     | or not: not parallel, and  |           |
//!              | nodes that do                | 16/17 of memory is on a    |           |
//!              |                              | node with time for it      |           |
//!              |                              |                            |           |
//! spread,      | 2: each busy thread has a    | they have a node in        | 10 s, not | the same
//! bound apart  | node that it may use, and no | common: placed anew. One   | if it may |
//!              | node is for all of them, not | has none of its nodes, or  | not stay  |
//!              | even that of its home. It    | one of these is for no     |           |
//!              | gets all these nodes         | thread: placed anew        |           |
//!              |                              |                            |           |
//! within set   | 2: its group is to be within | it may not be there, or    | 10 s, not | the same
//! nodes        | some nodes. It gets one of   | other nodes are set:       | if it may |
//!              | them, or is spread over the  | placed anew. Among these   | not stay  |
//!              | fewest of them, as above     | nodes as above             |           |
//!              |                              |                            |           |
//! even on set  | 2: its group is to be even   | it may not be on one of    |           |
//! nodes        | on some nodes. It gets all   | them, or others are set:   |           |
//!              | that it may use              | placed anew                |           |
//!              |                              |                            |           |
//! with groups  | after 5: its threads are in  | none of the groups has a   |           |
//!              | groups, one of which has a   | home; excluded             |           |
//!              | home. It gets the nodes of   |                            |           |
//!              | all of them                  |                            |           |
//!              |                              |                            |           |
//! interleaved  | 5: its node is saturated, it | 5: its node has recovered  | 10 s; not | the same
//!              | has > half of the load       | and has room, gain > cost  | again for |
//!              | there, no home was set,      |                            | 160 s     |
//!              | others have time, gain >     |                            |           |
//!              | cost                         |                            |           |
//! ```
//!
//! # Nodes
//!
//! ```text
//! state        | enters when                             | leaves when  | holds  | backs off
//! -------------+-----------------------------------------+--------------+--------+----------------
//! busy         | 3: load at home > limit, for 5 s        | it is not    |        | if it flaps: 10
//!              |                                         |              |        | s, 20 s, to 80
//!              |                                         |              |        | s
//!              |                                         |              |        |
//! short home   | 4: pages at home > what homes can have  | it is not    |        | the same
//!              | there, for 5 s                          |              |        |
//!              |                                         |              |        |
//! saturated    | 5: its controller delivers >= 90 % of   | it does not  |        | the same
//!              | what it can, for 5 s                    |              |        |
//!              |                                         |              |        |
//! recovered    | 5: the controllers of what is           | they do not  |        | the same
//!              | interleaved for it deliver < 45 %       |              |        |
//!              | together, for 5 s                       |              |        |
//!              |                                         |              |        |
//! closed       | 7: < 1 % of its memory is free, or >    | neither      |        |
//!              | 0.1 % of it spilled to other nodes      |              |        |
//!              |                                         |              |        |
//! rebalance    | 3: 5 s after the last rebalance the     | the pause is | 40 s   | doubles
//! paused       | busiest node is not less busy by 10 %   | over         |        |
//!              |                                         |              |        |
//! kept empty   | the settings say so: no home is there,  | they do not  |        |
//!              | threads and memory leave (6, 7, 8)      |              |        |
//!              |                                         |              |        |
//! no memory    | 7: tasks stand still for want of memory | they do not  |        |
//! moves        | for > 10 % of the time                  |              |        |
//! ```
//!
//! # What is away from home
//!
//! ```text
//! state        | enters when                      | leaves when            | holds     | backs off
//! -------------+----------------------------------+------------------------+-----------+----------
//! thread       | 6: it wants >= 1 % of a CPU; the | it is home             |           |
//! nudged       | lightest stay where home would   |                        |           |
//!              | be crowded                       |                        |           |
//!              |                                  |                        |           |
//! memory moves | 7: gain > cost, and >= 0.1 % of  | all is home            | until     |
//!              | a CPU; back to where it left     |                        | sampled   |
//!              | < 60 s ago: gain > 2 x cost;     |                        |           |
//!              | best ratio first, into the room  |                        |           |
//!              | less 2 %. Whatever the gain if a |                        |           |
//!              | home was set, or the node that   |                        |           |
//!              | it leaves is kept empty          |                        |           |
//!              |                                  |                        |           |
//! memory waits | 7: a move began                  | it took >= 1/16 and    | 2 s       | doubles,
//!              |                                  | more is away           |           | to 64 s
//!              | threads were bound apart, and    |                        | 10 s      |
//!              | have a node in common now        |                        |           |
//!              |                                  |                        |           |
//! given up     | 7: five moves in a row each took | what is away halves or |           |
//!              | < 1/16                           | doubles                |           |
//!              |                                  |                        |           |
//! doubted      | 7: no move paid for 5 s          | gain > 1.25 x cost for |           |
//!              |                                  | 5 s                    |           |
//! ```
//!
//! # Segments: memory that several processes map
//!
//! ```text
//! state        | enters when                      | leaves when            | holds     | backs off
//! -------------+----------------------------------+------------------------+-----------+----------
//! left alone   | 8: no user has load; one has no  | none of it is true     |           |
//!              | home; pages of all may not be    |                        |           |
//!              | moved; a user must be left alone |                        |           |
//!              |                                  |                        |           |
//! gathered     | 8: 15/16 of its users' load is   | it is not              | 60 s,     | doubles
//!              | at home on a node, for 5 s; gain |                        | after 5 s |
//!              | of all users > cost              |                        |           |
//!              |                                  |                        |           |
//! spread over  | 8: a part of it is where no user | it is not              | the same  | the same
//! its users'   | is at home, gain > cost; or one  |                        |           |
//! nodes        | of their nodes is saturated      |                        |           |
//! ```
//!
//! While the kernel's NUMA balancing is active and the balancer cooperates, what the kernel decided
//! stands: threads that it prefers elsewhere stay with their memory (6, 7), memory waits while it
//! may still decide (7, 8), what belongs to several nodes is left to it (7, 8), as is a process
//! that uses more memory of segments than of its own (6, 7, 8), and nothing is interleaved (5). A
//! process whose pages it moves loses its home.
//!
//! Why moving ends: a home goes to a node that is then still less busy by 10 %, so under a constant
//! load the list of node loads, greatest first, becomes smaller with each move. Memory goes to its
//! home only. What a load that never rests brings about waits twice as long each time
//! ([`damping`](crate::damping)).

mod away_work;
pub mod case;
mod controllers;
mod cost_model;
mod crowded_out;
mod entity;
mod even;
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
mod segment_history;
mod segments;
mod snapshot;
mod spread;
mod state;
mod thread_moves;
mod with_groups;

use std::collections::BTreeMap;

use nodeward_model::Nodemask;

pub use home::Home;
pub use plan::{
    Decision, MemoryMove, NodeSum, Nudge, Numbers, Plan, SegmentDecision, SegmentMove, Verdict,
};
pub use reason::Reason;
pub use rules::Rules;
pub use snapshot::{
    Affinity, Entity, EntityId, Exclusion, KernelPreference, NodeState, Segment, SegmentExclusion,
    SegmentUser, Snapshot, Target, Thread, wanted_ppm,
};
pub use state::Homes;

use entity::EntityRound;
use node_table::NodeTable;
use round::Round;

impl Homes {
    /// Decides about every entity of a snapshot. Entities that are no longer in it are forgotten.
    pub fn decide(&mut self, snapshot: &Snapshot, rules: &Rules) -> Plan {
        let nodes = &NodeTable::new(snapshot, rules);
        let mut entities = EntityRound::all(snapshot, nodes);
        let elapsed_ns = self.pass(snapshot.at_ns, &mut entities, rules);
        segments::share_out(&snapshot.segments, nodes, &mut entities);
        let mut round = Round::new(nodes, entities, elapsed_ns);
        let unplaced = keep::keep_homes(&mut round, self);
        initial::place(&mut round, self, &unplaced);
        // The states of nodes are those before any home has moved.
        let busy = rebalance::busy_nodes(&round, self);
        let short = relieve::short_nodes(&round, self);
        crowded_out::follow_threads(&mut round, self);
        rebalance::rebalance(&mut round, self, &busy);
        relieve::relieve_memory(&mut round, &short);
        let mut saturated = Vec::new();
        if !snapshot.kernel_balances {
            // The kernel would bring back what is interleaved.
            saturated = controllers::saturated_nodes(&round, self);
            interleave::interleave(&mut round, self, &saturated);
        }
        with_groups::follow(&mut round, self);
        self.note_changes(&mut round);
        let nudges = thread_moves::plan(nodes, &mut round.entities);
        crowded_out::observe(&round, self);
        let mut rooms: Vec<u64> = nodes.indices().map(|node| nodes.room(node)).collect();
        let moves = memory_moves::plan(&mut round, self, &mut rooms);
        let of_segments =
            segments::plan(&round, self, &snapshot.segments, (&saturated, &mut rooms));
        report::plan(round, self, (nudges, moves), of_segments)
    }

    /// Returns which threads are to be brought to homes as they are. Nothing is decided anew, and
    /// nothing is learnt: the plan has homes and nudges only.
    pub fn thread_moves(&self, snapshot: &Snapshot, rules: &Rules) -> Plan {
        let nodes = &NodeTable::new(snapshot, rules);
        let mut entities = self.at_home(snapshot, nodes);
        let nudges = thread_moves::plan(nodes, &mut entities);
        Plan { homes: report::homes_of(&entities, nodes), nudges, ..Plan::default() }
    }

    /// Returns the nodes where each thread belongs, by the kernel's number of the thread: of
    /// entities with a home, wherever their threads are now, and however little they run.
    pub fn thread_homes(&self, snapshot: &Snapshot, rules: &Rules) -> BTreeMap<u32, Nodemask> {
        let nodes = &NodeTable::new(snapshot, rules);
        thread_moves::homes(nodes, &self.at_home(snapshot, nodes))
    }

    /// Returns the entities, with the homes that they have.
    fn at_home<'a>(&self, snapshot: &'a Snapshot, nodes: &NodeTable<'_>) -> Vec<EntityRound<'a>> {
        let mut entities = EntityRound::all(snapshot, nodes);
        for entity in &mut entities {
            (entity.load_ppm, entity.working_ppm) = (entity.wanted_ppm, entity.wanted_ppm);
        }
        segments::share_out(&snapshot.segments, nodes, &mut entities);
        for entity in &mut entities {
            let home = self.home(entity.id()).filter(|_| keep::is_eligible(entity, true));
            entity.placement = home.and_then(|home| entity.placement_of(home, nodes));
        }
        entities
    }
}
