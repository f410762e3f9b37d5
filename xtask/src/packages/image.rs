//! The container image: an OCI image layout with one layer, which has the command and its licences.
//!
//! The format is that of <https://github.com/opencontainers/image-spec>. `podman load`, `skopeo`
//! and `crane` read the layout; packed as a tar file it is an `oci-archive`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::archive;
use super::checkout::Checkout;
use super::checksum::sha256;
use super::programs::ReleasePrograms;

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// What the image has beside the command.
const LICENCES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];

/// Builds the image and returns the directory of its layout.
pub fn build(checkout: &Checkout, programs: &ReleasePrograms) -> Result<PathBuf> {
    let layout = ImageLayout(checkout.empty_dir("image")?);
    fs::create_dir_all(layout.blobs())?;
    let (layer, content) = layout.layer(checkout, programs)?;
    let config = layout.json(CONFIG, &config(checkout, &content)?)?;
    let manifest = json!({
        "schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer],
    });
    let mut manifest = layout.json(MANIFEST, &manifest)?;
    manifest["platform"] = json!({"architecture": "amd64", "os": "linux"});
    manifest["annotations"] = json!({"org.opencontainers.image.ref.name": checkout.version});
    let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [manifest]});
    layout.write("index.json", &index)?;
    layout.write("oci-layout", &json!({"imageLayoutVersion": "1.0.0"}))?;
    Ok(layout.0)
}

/// A directory with blobs that are named by their sums.
struct ImageLayout(PathBuf);

impl ImageLayout {
    fn blobs(&self) -> PathBuf {
        self.0.join("blobs/sha256")
    }

    /// Adds the layer. Returns its descriptor, and the sum of its content before compression.
    fn layer(&self, checkout: &Checkout, programs: &ReleasePrograms) -> Result<(Value, String)> {
        let tree = checkout.empty_dir("image-tree")?;
        put(&programs.command(), &tree.join("usr/bin/nodeward"))?;
        for name in LICENCES {
            let to = tree.join("usr/share/doc/nodeward").join(name);
            put(&checkout.root.join(name), &to)?;
        }
        let (tar, packed) = (checkout.out.join("layer.tar"), checkout.out.join("layer.tar.gz"));
        archive::tar(checkout, &tree, &tar)?;
        archive::gzip(&tar, &packed)?;
        Ok((self.add(LAYER, &packed)?, sha256(&tar)?))
    }

    fn json(&self, media_type: &str, value: &Value) -> Result<Value> {
        self.write("blob", value)?;
        self.add(media_type, &self.0.join("blob"))
    }

    /// Moves a file to the blobs and returns its descriptor.
    fn add(&self, media_type: &str, file: &Path) -> Result<Value> {
        let sum = sha256(file)?;
        let size = fs::metadata(file)?.len();
        fs::rename(file, self.blobs().join(&sum))?;
        Ok(json!({"mediaType": media_type, "digest": format!("sha256:{sum}"), "size": size}))
    }

    fn write(&self, name: &str, value: &Value) -> Result<()> {
        let path = self.0.join(name);
        fs::write(&path, value.to_string()).with_context(|| format!("writing {}", path.display()))
    }
}

/// Copies a file, with the directories above it.
fn put(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to.parent().unwrap_or(to))?;
    fs::copy(from, to).with_context(|| format!("copying {}", from.display())).map(drop)
}

/// What starts, and as whom. Root without capabilities cannot move pages of others: whoever runs
/// the image adds CAP_SYS_NICE and CAP_SYS_PTRACE.
fn config(checkout: &Checkout, layer_content: &str) -> Result<Value> {
    Ok(json!({
        "created": checkout.time()?,
        "architecture": "amd64",
        "os": "linux",
        "config": {
            "User": "0:0",
            "Env": ["PATH=/usr/bin"],
            "Entrypoint": ["/usr/bin/nodeward"],
            "Cmd": ["balance"],
            "Labels": {
                "org.opencontainers.image.title": "nodeward",
                "org.opencontainers.image.description":
                    "Keeps memory next to the threads that use it",
                "org.opencontainers.image.version": checkout.version,
                "org.opencontainers.image.licenses": "MIT OR Apache-2.0",
            },
        },
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{layer_content}")]},
        "history": [{"created": checkout.time()?, "created_by": "make image"}],
    }))
}
