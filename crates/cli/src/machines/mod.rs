//! The questions of verbs to machines: which machine is meant, which nodes and groups exist on it,
//! which pages are hot there, its page cache and its shared memory, where the memory of emptied
//! nodes goes, watches over a time, who moves pages, and runs of simulated machines.

mod balanced_simulation;
pub mod cgroups;
pub mod evacuation;
pub mod group_homes;
pub mod hot;
pub mod kept_empty;
mod node_names;
pub mod node_pairs;
pub mod observation;
pub mod page_cache_move;
pub mod page_movers;
pub mod segment_rest;
mod selected_machine;
pub mod shared_memory;
pub mod simulation;

pub use node_names::NodeNames;
pub use selected_machine::SelectedMachine;
