//! Placement on generated machines: cases with their arithmetic, and properties of random machines.

mod beside_kernel;
mod bound_apart;
mod homes;
mod kept_empty;
mod moves;
mod properties;
mod seed_2012;
mod segments;
mod targets;
mod turns;
mod world;

/// Returns how many machines to draw: a quarter, or all with `NODEWARD_TESTS=long`, as `make
/// test-long` sets it.
fn quarter_or_all(machines: u32) -> u32 {
    match std::env::var_os("NODEWARD_TESTS") {
        Some(extent) if extent == "long" => machines,
        _ => machines / 4,
    }
}
