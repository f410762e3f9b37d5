//! The bill of materials: what is linked into the programs, in the format of CycloneDX 1.5, from
//! cargo's own resolution.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::{Value, json};

use super::checkout::Checkout;
use crate::{guest, process};

/// The members whose programs and libraries are packaged.
const SHIPPED: [&str; 3] = ["nodeward-cli", "nodeward-capi", "nodeward-python"];

/// The output of `cargo metadata`, as far as we use it.
#[derive(Deserialize)]
struct Resolution {
    packages: Vec<ResolvedPackage>,
    resolve: ResolveGraph,
}

#[derive(Deserialize)]
struct ResolvedPackage {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    source: Option<String>,
}

#[derive(Deserialize)]
struct ResolveGraph {
    nodes: Vec<ResolveNode>,
}

#[derive(Deserialize)]
struct ResolveNode {
    id: String,
    deps: Vec<ResolveEdge>,
}

#[derive(Deserialize)]
struct ResolveEdge {
    pkg: String,
    dep_kinds: Vec<EdgeKind>,
}

/// `None` is a dependency of the program itself, not of its tests or its build.
#[derive(Deserialize)]
struct EdgeKind {
    kind: Option<String>,
}

/// Writes the bill.
pub fn write(checkout: &Checkout, to: &Path) -> Result<()> {
    let bill = bill(&resolution(checkout)?, checkout)?;
    let text = serde_json::to_string_pretty(&bill)? + "\n";
    fs::write(to, text).with_context(|| format!("writing {}", to.display()))
}

fn resolution(checkout: &Checkout) -> Result<Resolution> {
    let mut cargo = checkout.command(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["metadata", "--locked", "--no-default-features", "--format-version", "1"]);
    cargo.args(["--filter-platform", guest::TARGET]);
    let text = process::stdout_of(&mut cargo)?;
    serde_json::from_str(&text).context("cargo metadata answered in an unknown shape")
}

fn bill(resolution: &Resolution, checkout: &Checkout) -> Result<Value> {
    let linked = linked(resolution);
    let packages: BTreeMap<&str, &ResolvedPackage> =
        resolution.packages.iter().map(|package| (package.id.as_str(), package)).collect();
    let mut components: Vec<Value> = linked.keys().map(|id| packages[id].component()).collect();
    components.extend([rust_library()?, c_library()?]);
    let of = |(id, uses): (&&str, &BTreeSet<&str>)| {
        let uses: Vec<_> = uses.iter().map(|id| packages[id].reference()).collect();
        json!({"ref": packages[id].reference(), "dependsOn": uses})
    };
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": checkout.time()?,
            "component": {"type": "application", "name": "nodeward", "version": checkout.version},
        },
        "components": components,
        "dependencies": linked.iter().map(of).collect::<Vec<_>>(),
    }))
}

/// Returns the packages that are linked into what is shipped, each with those that it uses.
/// Macros are among them, although they only run in the compiler: cargo does not tell.
fn linked(resolution: &Resolution) -> BTreeMap<&str, BTreeSet<&str>> {
    let uses: BTreeMap<&str, BTreeSet<&str>> =
        resolution.resolve.nodes.iter().map(|node| (node.id.as_str(), node.uses())).collect();
    let shipped = resolution.packages.iter().filter(|p| SHIPPED.contains(&p.name.as_str()));
    let mut waiting: Vec<&str> = shipped.map(|package| package.id.as_str()).collect();
    let mut linked = BTreeMap::new();
    while let Some(id) = waiting.pop() {
        let used = uses.get(id).cloned().unwrap_or_default();
        waiting.extend(used.iter().filter(|used| !linked.contains_key(*used)));
        linked.insert(id, used);
    }
    linked
}

impl ResolveNode {
    fn uses(&self) -> BTreeSet<&str> {
        let is_linked = |edge: &&ResolveEdge| edge.dep_kinds.iter().any(|kind| kind.kind.is_none());
        self.deps.iter().filter(is_linked).map(|edge| edge.pkg.as_str()).collect()
    }
}

impl ResolvedPackage {
    fn reference(&self) -> String {
        format!("pkg:cargo/{}@{}", self.name, self.version)
    }

    fn component(&self) -> Value {
        let mut component = json!({
            "type": "library", "name": self.name, "version": self.version,
            "bom-ref": self.reference(), "purl": self.reference(),
        });
        if let Some(license) = &self.license {
            // Some still write the old `MIT/Apache-2.0`.
            component["licenses"] = json!([{"expression": license.replace('/', " OR ")}]);
        }
        // Members of the workspace are in no registry.
        if self.source.is_none() {
            component.as_object_mut().map(|fields| fields.remove("purl"));
        }
        component
    }
}

fn rust_library() -> Result<Value> {
    let told = process::stdout_of(Command::new("rustc").arg("--version"))?;
    let version = told.split(' ').nth(1).context("rustc --version tells no version")?;
    Ok(json!({"type": "library", "name": "rust-std", "version": version,
        "licenses": [{"expression": "MIT OR Apache-2.0"}]}))
}

/// The C library of this machine, which is linked into the command.
fn c_library() -> Result<Value> {
    let told = process::stdout_of(Command::new("getconf").arg("GNU_LIBC_VERSION"))?;
    let version = told.trim().split(' ').nth(1).context("getconf tells no version of glibc")?;
    Ok(json!({"type": "library", "name": "glibc", "version": version,
        "licenses": [{"expression": "LGPL-2.1-or-later"}]}))
}
