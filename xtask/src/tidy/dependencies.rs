//! The permitted dependencies between crates. The table is closed: a new crate must be entered here
//! and in ARCHITECTURE.md, which shows readers what it may use.

use std::path::Path;

use super::violation::Violation;
use crate::workspace::{Package, Workspace};

/// Each member and the members that it may use. Dependencies of tests are not restricted.
const ALLOWED_DEPENDENCIES: &[(&str, &[&str])] = &[
    ("nodeward-model", &[]),
    ("nodeward-files", &[]),
    ("nodeward-call", &[]),
    ("nodeward-bpf", &[]),
    ("nodeward-lab-counts", &[]),
    ("nodeward-policy", &["nodeward-model"]),
    ("nodeward-batch", &["nodeward-model"]),
    ("nodeward-machine", &["nodeward-model"]),
    ("nodeward-samples", &["nodeward-model"]),
    ("nodeward-operands", &["nodeward-model"]),
    (
        "nodeward-linux",
        &["nodeward-model", "nodeward-files", "nodeward-machine", "nodeward-operands"],
    ),
    ("nodeward-records", &["nodeward-model", "nodeward-files"]),
    (
        "nodeward-mover",
        &["nodeward-model", "nodeward-policy", "nodeward-machine", "nodeward-records"],
    ),
    (
        "nodeward-balancer",
        &[
            "nodeward-model",
            "nodeward-policy",
            "nodeward-machine",
            "nodeward-records",
            "nodeward-mover",
        ],
    ),
    (
        "nodeward-agent",
        &[
            "nodeward-model",
            "nodeward-files",
            "nodeward-call",
            "nodeward-policy",
            "nodeward-machine",
            "nodeward-linux",
            "nodeward-records",
            "nodeward-mover",
            "nodeward-balancer",
        ],
    ),
    (
        "nodeward-pager",
        &[
            "nodeward-model",
            "nodeward-policy",
            "nodeward-batch",
            "nodeward-machine",
            "nodeward-linux",
            "nodeward-mover",
        ],
    ),
    ("nodeward-scenario", &["nodeward-model"]),
    (
        "nodeward-sim",
        &[
            "nodeward-model",
            "nodeward-policy",
            "nodeward-batch",
            "nodeward-machine",
            "nodeward-scenario",
        ],
    ),
    (
        "nodeward-experiments",
        &[
            "nodeward-model",
            "nodeward-policy",
            "nodeward-machine",
            "nodeward-mover",
            "nodeward-balancer",
            "nodeward-scenario",
            "nodeward-sim",
        ],
    ),
    ("nodeward", &["nodeward-model", "nodeward-call", "nodeward-linux", "nodeward-pager"]),
    (
        "nodeward-own-balancer",
        &[
            "nodeward-model",
            "nodeward-machine",
            "nodeward-linux",
            "nodeward-balancer",
            "nodeward-mover",
            "nodeward-pager",
            "nodeward",
        ],
    ),
    ("nodeward-capi", &["nodeward"]),
    ("nodeward-python", &["nodeward"]),
    (
        "nodeward-proof",
        &[
            "nodeward-model",
            "nodeward-policy",
            "nodeward-machine",
            "nodeward-linux",
            "nodeward-pager",
        ],
    ),
    (
        "nodeward-cli",
        &[
            "nodeward-model",
            "nodeward-files",
            "nodeward-bpf",
            "nodeward-policy",
            "nodeward-machine",
            "nodeward-samples",
            "nodeward-linux",
            "nodeward-records",
            "nodeward-mover",
            "nodeward-balancer",
            "nodeward-agent",
            "nodeward-pager",
            "nodeward-proof",
            "nodeward-scenario",
            "nodeward-sim",
            "nodeward-experiments",
        ],
    ),
    (
        "nodeward-load",
        &["nodeward-model", "nodeward-lab-counts", "nodeward-linux", "nodeward-proof"],
    ),
    (
        "nodeward-cases",
        &[
            "nodeward-model",
            "nodeward-lab-counts",
            "nodeward-machine",
            "nodeward-linux",
            "nodeward-pager",
            "nodeward",
            "nodeward-own-balancer",
        ],
    ),
    ("nodeward-torture", &["nodeward", "nodeward-model", "nodeward-linux", "nodeward-proof"]),
    ("nodeward-runner", &["nodeward-model", "nodeward-lab-counts", "nodeward-linux"]),
    (
        "nodeward-bench",
        &[
            "nodeward-model",
            "nodeward-lab-counts",
            "nodeward-machine",
            "nodeward-linux",
            "nodeward-proof",
            "nodeward-runner",
        ],
    ),
    ("nodeward-lab-agent", &[]),
    ("nodeward-lab-counter", &["nodeward-lab-counts"]),
    (
        "nodeward-lab",
        &["nodeward-model", "nodeward-lab-agent", "nodeward-lab-counts", "nodeward-scenario"],
    ),
    (
        "nodeward-compare",
        &[
            "nodeward-model",
            "nodeward-runner",
            "nodeward-lab-counts",
            "nodeward-lab",
            "nodeward-scenario",
            "nodeward-sim",
            "nodeward-experiments",
        ],
    ),
    ("xtask", &[]),
];

/// Checks the rule.
pub fn check(workspace: &Workspace) -> Vec<Violation> {
    workspace.packages.iter().flat_map(check_package).collect()
}

fn check_package(package: &Package) -> Vec<Violation> {
    let manifest = package.dir().join("Cargo.toml");
    let Some((_, allowed)) = ALLOWED_DEPENDENCIES.iter().find(|(name, _)| *name == package.name)
    else {
        let advice = format!("enter `{}` and what it may use in {}", package.name, file!());
        return vec![Violation::new(&manifest, 0, advice)];
    };
    forbidden(package, allowed).map(|name| violation(&manifest, &package.name, name)).collect()
}

fn forbidden<'a>(package: &'a Package, allowed: &'a [&str]) -> impl Iterator<Item = &'a str> {
    let members = package.dependencies.iter().filter(|d| d.path.is_some());
    let shipped = members.filter(|d| d.kind.as_deref() != Some("dev"));
    shipped.map(|d| d.name.as_str()).filter(|name| !allowed.contains(name))
}

fn violation(manifest: &Path, from: &str, to: &str) -> Violation {
    let advice = format!("`{from}` may not depend on `{to}`; ARCHITECTURE.md draws the arrows");
    Violation::new(manifest, 0, advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, uses: &[(&str, Option<&str>)]) -> Package {
        let dependencies: Vec<_> = uses
            .iter()
            .map(|(name, kind)| serde_json::json!({"name": name, "kind": kind, "path": "/x"}))
            .collect();
        let package = serde_json::json!({
            "name": name, "rust_version": null, "manifest_path": "crates/x/Cargo.toml",
            "dependencies": dependencies, "targets": [],
        });
        serde_json::from_value(package).unwrap()
    }

    #[test]
    fn a_decision_may_not_reach_the_machine() {
        let uses = [("nodeward-model", None), ("nodeward-machine", None)];
        let found = check_package(&package("nodeward-policy", &uses));
        assert_eq!(found.len(), 1);
        assert!(found[0].to_string().contains("may not depend on `nodeward-machine`"));
    }

    #[test]
    fn tests_may_use_more_and_build_scripts_may_not() {
        let with =
            |kind| check_package(&package("nodeward-linux", &[("nodeward-lab", Some(kind))]));
        assert_eq!(with("dev").len(), 0);
        assert_eq!(with("build").len(), 1);
    }

    #[test]
    fn an_unknown_crate_must_be_entered() {
        assert_eq!(check_package(&package("nodeward-new", &[])).len(), 1);
    }

    #[test]
    fn the_arrows_have_no_circle() {
        for (index, (_, uses)) in ALLOWED_DEPENDENCIES.iter().enumerate() {
            let before: Vec<&str> =
                ALLOWED_DEPENDENCIES[..index].iter().map(|(name, _)| *name).collect();
            assert!(uses.iter().all(|name| before.contains(name)), "{uses:?}");
        }
    }
}
