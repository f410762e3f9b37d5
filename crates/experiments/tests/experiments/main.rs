//! Comparisons of balancers, and machines drawn from seeds.

mod beside_kernel;
mod database;
mod placed;
mod steady;
mod swarm;

/// Returns the values to try: the first, or all with `NODEWARD_TESTS=long`, as `make test-long`
/// sets it.
fn one_or_all<T>(values: &[T]) -> &[T] {
    match std::env::var_os("NODEWARD_TESTS") {
        Some(extent) if extent == "long" => values,
        _ => &values[..1],
    }
}
