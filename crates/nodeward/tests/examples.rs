//! The examples end well.

#[path = "../examples/buffer_pool.rs"]
mod buffer_pool;

#[test]
fn a_buffer_pool_loses_nothing_on_its_way() {
    buffer_pool::main().unwrap();
}
