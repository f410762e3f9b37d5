//! Results of `nodeward bench`, as text, as JSON and as pictures.

pub mod calls;
pub mod pager;
pub mod pool;

fn threads(count: u32) -> String {
    format!("{count} thread{}", if count == 1 { "" } else { "s" })
}
