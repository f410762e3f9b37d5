//! The manifests for Kubernetes beside the command, the unit and the settings that they repeat.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use nodeward_agent::socket::DEFAULT_PATH;

use crate::outcome::NODEWARD;

const UNIT: &str = include_str!("../../../../packaging/nodeward-balance.service");
const BASE: &str = include_str!("../../../../packaging/kubernetes/base/daemonset.yaml");
const CHART: &str = include_str!("../../../../packaging/kubernetes/chart/templates/daemonset.yaml");
const VALUES: &str = include_str!("../../../../packaging/kubernetes/chart/values.yaml");
const MANIFESTS: [&str; 2] = [BASE, CHART];

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/kubernetes")
}

/// Returns what follows the only line that begins so.
fn value<'a>(text: &'a str, key: &str) -> &'a str {
    let values: Vec<_> =
        text.lines().filter_map(|line| line.trim_start().strip_prefix(key)).collect();
    assert_eq!(values.len(), 1, "{key}: {values:?}");
    values[0].trim()
}

/// Returns the settings in effect with these as the user's file.
fn settings(file: &Path) -> Output {
    let mut command = Command::new(NODEWARD);
    command.args(["config", "print", "--effective"]).env("NODEWARD_CONFIG", file);
    command.output().unwrap()
}

fn printed(file: &Path) -> String {
    let output = settings(file);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Goal: a container has the capabilities of the unit and no other, and no way to get more.
#[test]
fn containers_have_what_the_unit_has() {
    let unit = value(UNIT, "CapabilityBoundingSet=");
    let names: Vec<_> =
        unit.split(' ').map(|name| format!("\"{}\"", &name["CAP_".len()..])).collect();
    for manifest in MANIFESTS {
        assert_eq!(value(manifest, "add:"), format!("[{}]", names.join(", ")));
        assert_eq!(value(manifest, "drop:"), "[\"ALL\"]");
        assert_eq!(value(manifest, "privileged:"), "false");
        assert_eq!(value(manifest, "allowPrivilegeEscalation:"), "false");
        assert_eq!(value(manifest, "readOnlyRootFilesystem:"), "true");
    }
}

/// Goal: a container may use the memory of the unit, and gets its time to end.
#[test]
fn containers_have_the_limits_of_the_unit() {
    let limit = |text| {
        let (_, limits) = str::split_once(text, "limits:").unwrap();
        value(limits.split("\n\n").next().unwrap(), "memory:").split('\n').next().unwrap()
    };
    let units_limit = format!("{}i", value(UNIT, "MemoryMax="));
    assert_eq!(limit(VALUES), units_limit);
    assert!(BASE.contains(&format!("limits:\n              memory: {units_limit}\n")));
    let seconds = value(UNIT, "TimeoutStopSec=").trim_end_matches('s');
    for manifest in MANIFESTS {
        assert_eq!(value(manifest, "terminationGracePeriodSeconds:"), seconds);
    }
}

/// Goal: the settings of the cluster are read without complaint by the command that gets them, and
/// its agent listens where the volume and the probe expect it.
#[test]
fn settings_of_the_cluster_are_read() {
    let told = printed(&directory().join("base/nodeward.toml"));
    assert!(told.contains(&format!("socket = \"{DEFAULT_PATH}\"")), "{told}");
    let mount = format!("mountPath: {}\n", Path::new(DEFAULT_PATH).parent().unwrap().display());
    let charts = fs::read(directory().join("chart/nodeward.toml")).unwrap();
    assert_eq!(charts, fs::read(directory().join("base/nodeward.toml")).unwrap());
    for manifest in MANIFESTS {
        assert!(manifest.contains(&mount));
        assert!(manifest.contains("/etc/nodeward/nodeward.toml\n"));
        assert!(manifest.contains("command: [\"/usr/bin/nodeward\", \"group\", \"list\"]"));
        assert!(manifest.contains("args: [\"balance\"]"));
    }
    for words in [["group", "list"], ["balance", "--quiet"]] {
        let help = Command::new(NODEWARD).args(words).arg("--help").output().unwrap();
        assert!(help.status.success(), "{words:?}");
    }
}

/// Goal: manifests name the version of the command.
#[test]
fn manifests_name_this_version() {
    let version = env!("CARGO_PKG_VERSION");
    let text = |name: &str| fs::read_to_string(directory().join(name)).unwrap();
    assert_eq!(value(&text("base/kustomization.yaml"), "newTag:"), version);
    assert_eq!(value(&text("chart/Chart.yaml"), "appVersion:"), version);
    assert_eq!(value(&text("chart/Chart.yaml"), "version:"), version);
}

/// Runs pod-groups with a kubectl that answers with these lines, as its template makes them.
fn pod_groups(pods: &str) -> (String, String) {
    let folder = tempfile::tempdir().unwrap();
    let kubectl = folder.path().join("kubectl");
    fs::write(folder.path().join("pods"), pods).unwrap();
    fs::write(&kubectl, "#!/bin/sh\nexec cat \"${0%/*}/pods\"\n").unwrap();
    fs::set_permissions(&kubectl, fs::Permissions::from_mode(0o755)).unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    let mut script = Command::new(directory().join("pod-groups"));
    script.env("PATH", format!("{}:{path}", folder.path().display()));
    let output = script.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (text(output.stdout), text(output.stderr))
}

/// Goal: annotated pods become groups that the settings accept, each for the control group that the
/// kubelet gives a pod of its class. An annotation that is no list of nodes is named and left out,
/// so that no pod can stop the balancer or write rules of its own.
#[test]
fn annotations_become_groups() {
    let (groups, told) = pod_groups(
        "0f0e-1 Burstable db pg-0 \"1\"\n\
         0f0e-2 Guaranteed db pg-1 \"spread:0-1,3\"\n\
         0f0e-3 BestEffort web a-1 \"auto\"\n\
         0f0e-4 Burstable evil b-1 \"1\\n[group.x]\"\n\
         0f0e-5 Burstable evil b-2 \"near:gpu:0\"\n\
         0f0e-6 Burstable evil b-3 \"\"\n",
    );
    for line in [
        "[group.pod-0f0e-1]\nmatch = [\"cgroup:/../../kubepods-burstable-pod0f0e_1.slice\"]\n",
        "[group.pod-0f0e-2]\nmatch = [\"cgroup:/../../../kubepods-pod0f0e_2.slice\"]\n",
        "match = [\"cgroup:/../../../kubepods-besteffort.slice/\
         kubepods-besteffort-pod0f0e_3.slice\"]\n",
        "home = \"spread:0-1,3\"\n",
    ] {
        assert!(groups.contains(line), "{line} is not in {groups}");
    }
    assert_eq!(groups.matches("[group.").count(), 3, "{groups}");
    for name in ["evil/b-1", "evil/b-2", "evil/b-3"] {
        assert!(told.contains(&format!("pod-groups: {name}: ")), "{told}");
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    let base = fs::read_to_string(directory().join("base/nodeward.toml")).unwrap();
    fs::write(file.path(), base + &groups).unwrap();
    printed(file.path());
    fs::write(file.path(), "[group.pod-1]\nmatch = ['cgroup:x']\n").unwrap();
    assert!(!settings(file.path()).status.success(), "groups are read, too");
}
