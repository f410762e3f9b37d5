//! Names the shared library by its ABI.

/// Raised when a program that was linked with an older library could break.
const SONAME: &str = "libnodeward.so.0";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,{SONAME}");
    // dlclose(3) must not unmap code that our threads run and that fork(2) calls.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
