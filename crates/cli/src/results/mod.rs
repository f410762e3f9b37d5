//! Results of verbs, as data: one module for each kind of result that is more than the answer of
//! one crate. `output` formats them.

mod explanation;
mod moved_nodes;
mod node_page_counts;
pub mod observation;
mod page_demands;
mod page_lists;
pub mod page_movers;
mod page_tuning;
mod proposed_groups;
mod shown_memory;
pub mod simulation;
pub mod sweep;
pub mod top;
pub mod touched_memory;

pub use explanation::ProcessExplanation;
pub use moved_nodes::MovedNodes;
pub use node_page_counts::NodePageCounts;
pub use page_demands::{CpuListUse, PageDemands};
#[cfg(test)]
pub use page_lists::test_lists;
pub use page_lists::{ListChange, ListChanges, ListLook};
pub use page_tuning::{SettingEnd, TuningAdvice, TuningRound};
pub use proposed_groups::{ObservedTouches, ProposedGroup, ProposedGroups};
pub use shown_memory::ShownMemory;
