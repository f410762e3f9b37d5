//! Results of `nodeward bench`, as text, as JSON and as pictures.

pub mod calls;
pub mod limits;
pub mod pager;
pub mod pool;

use nodeward_proof::NodeRoute;

fn threads(count: u32) -> String {
    format!("{count} thread{}", if count == 1 { "" } else { "s" })
}

fn between(nodes: NodeRoute) -> String {
    match nodes.are_distinct() {
        true => format!("to and fro between nodes {} and {}", nodes.from, nodes.to),
        false => format!("from its pages to others of node {}", nodes.from),
    }
}
