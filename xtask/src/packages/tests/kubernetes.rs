//! The manifests for Kubernetes, as far as they can be checked without a cluster: by the schemas of
//! its API, which the program kubernetes-validate has, and by helm where it is installed.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::{is_here, is_long, output, text};
use crate::process;
use crate::workspace::{self, Workspace};

/// The Python package with the schemas.
const VALIDATOR: &str = "kubernetes-validate==1.37.0";
/// The oldest Kubernetes that the chart accepts, and the newest of the schemas.
const KUBERNETES: [&str; 2] = ["1.30", "1.37"];

fn directory(name: &str) -> PathBuf {
    workspace::root().join("packaging/kubernetes").join(name)
}

/// Installs the validator below the target directory, once.
fn validator() -> PathBuf {
    let tools = Workspace::load().unwrap().target_directory.join("tools");
    let venv = tools.join(VALIDATOR.replace("==", "-"));
    let program = venv.join("bin/kubernetes-validate");
    if !program.is_file() {
        text(Command::new("python3").args(["-m", "venv"]).arg(&venv));
        let mut pip = Command::new(venv.join("bin/pip"));
        text(pip.args(["install", "--quiet", "--disable-pip-version-check", VALIDATOR]));
    }
    program
}

/// Whether the schemas of a version allow these manifests, and what was said. A key that they do
/// not know is not allowed.
fn validated(manifests: &str, version: &str) -> (bool, String) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, manifests).unwrap();
    let mut validate = Command::new(validator());
    validate.args(["--strict", "--kubernetes-version", version]).arg(file.path());
    let said = output(&mut validate);
    (said.status.success(), String::from_utf8_lossy(&[said.stdout, said.stderr].concat()).into())
}

fn assert_valid(manifests: &str) {
    for version in KUBERNETES {
        let (valid, said) = validated(manifests, version);
        assert!(valid, "{said}");
    }
}

fn kustomized() -> String {
    text(Command::new("kubectl").arg("kustomize").arg(directory("base")))
}

fn templated(options: &[&str]) -> String {
    let mut helm = Command::new("helm");
    text(helm.args(["template", "nodeward"]).arg(directory("chart")).args(options))
}

/// Goal: the API has every key of the manifests, with values of that type. A key that it does not
/// have is found.
#[test]
fn schemas_allow_the_base() {
    if !is_long("schemas of Kubernetes") || !is_here("kubectl", "kubernetes-client") {
        return;
    }
    let manifests = kustomized();
    assert_valid(&manifests);
    let (valid, said) =
        validated(&manifests.replace("hostPID: true", "hostPids: true"), KUBERNETES[0]);
    assert!(!valid && said.contains("hostPids"), "{said}");
}

/// Goal: the chart makes the pods that kustomize makes, and other values reach their places.
#[test]
fn the_chart_is_the_base() {
    if !is_long("the chart") || !is_here("kubectl", "kubernetes-client") {
        return;
    }
    if process::find("helm").is_none() {
        eprintln!("skipped: helm is not installed");
        return;
    }
    text(Command::new("helm").args(["lint", "--strict"]).arg(directory("chart")));
    let manifests = templated(&[]);
    assert_valid(&manifests);
    assert_eq!(pod_spec(&manifests), pod_spec(&kustomized()));
    let other = templated(&["--set", "image.repository=r.example/n,image.tag=9"]);
    assert!(other.contains("image: \"r.example/n:9\""), "{other}");
}

/// Returns the specification of the pods, with the name of the ConfigMap as it is without its sum.
fn pod_spec(manifests: &str) -> String {
    let set = daemon_set(manifests);
    let mut spec = set["spec"]["template"]["spec"].clone();
    for volume in spec["volumes"].as_array_mut().unwrap() {
        if let Some(name) = volume.pointer_mut("/configMap/name") {
            *name = Value::from(name.as_str().unwrap().split('-').next().unwrap());
        }
    }
    serde_json::to_string_pretty(&spec).unwrap()
}

/// Reads YAML by way of kubectl.
fn daemon_set(manifests: &str) -> Value {
    let documents = manifests.split("\n---\n");
    let document = documents.into_iter().find(|text| text.contains("kind: DaemonSet")).unwrap();
    let file = tempfile::NamedTempFile::with_suffix(".yaml").unwrap();
    std::fs::write(&file, document).unwrap();
    let mut kubectl = Command::new("kubectl");
    kubectl.args(["annotate", "--local", "--output=json", "--filename"]).arg(file.path());
    serde_json::from_str(&text(kubectl.arg("read=yes").stderr(Stdio::null()))).unwrap()
}
