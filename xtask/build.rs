//! Generates the header of the C library, which `cargo xtask header` writes and a test compares.
//!
//! Here, because a build script is built for the host, as procedural macros are. If xtask itself
//! used cbindgen, what it shares with macros would be built in two ways, and crates that use a
//! macro twice: for tests, and for examples of the documentation.

use std::path::{Path, PathBuf};
use std::{env, fs};

use cbindgen::{Builder, Config};

const SOURCE: &str = "../crates/capi";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={SOURCE}/src");
    println!("cargo::rerun-if-changed={SOURCE}/cbindgen.toml");
    let header = generate(Path::new(SOURCE)).unwrap_or_else(|why| {
        // No other chore needs the header.
        println!("cargo::warning=cbindgen cannot read crates/capi: {why}");
        Vec::new()
    });
    let to = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("nodeward.h");
    fs::write(to, header).expect("cargo's directory can be written");
}

fn generate(capi: &Path) -> Result<Vec<u8>, String> {
    let config = Config::from_file(capi.join("cbindgen.toml"))?;
    let builder = Builder::new().with_src(capi.join("src/lib.rs")).with_config(config);
    let mut header = Vec::new();
    builder.generate().map_err(|why| why.to_string())?.write(&mut header);
    Ok(header)
}
