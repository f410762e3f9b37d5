//! The nodes that devices are attached to: of network interfaces, disks, PCI devices and graphics
//! processors.
//!
//! The kernel has the node of a device in `numa_node`, in the directory of the device or of one
//! that it is attached to; -1 means that the firmware did not say. Volumes, arrays, bonds, bridges
//! and VLANs have no node: they have those of the devices that they consist of. The memory of a
//! graphics processor may be a node of its own without CPUs, so what is near a device is the
//! nearest node with CPUs.

use std::fmt;
use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use nodeward_model::{Escape as _, NodeId, Nodemask, Topology};
use thiserror::Error;

use crate::kernel_file;
use crate::routes;

/// PCI classes of displays and of processing accelerators, as `class` begins.
const GPU_CLASSES: [&str; 2] = ["0x03", "0x12"];
/// Directories above a device that are searched for its node at most.
const ABOVE_MAX: usize = 16;
/// Devices that consist of devices are looked into as often at most: a volume in an encrypted
/// volume on an array of partitions is three.
const LAYERS_MAX: usize = 8;

/// A device by a name, as numactl(8) has them, and `gpu:N`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Device {
    /// `netdev:NAME`, a network interface.
    Netdev(String),
    /// `ip:ADDRESS`, the network interface by which an address is reached.
    Ip(IpAddr),
    /// `pci:ADDRESS`, such as `0000:3b:00.0`; the domain 0000 may be left out.
    Pci(String),
    /// `block:NAME`, a disk or a partition, such as `nvme0n1`.
    Block(String),
    /// `file:PATH`, the disk that a file is on.
    File(PathBuf),
    /// `gpu:N`, a display or accelerator of the PCI bus, from 0 in the order of addresses.
    Gpu(usize),
}

/// A device that was found, with its node if the firmware told one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundDevice {
    /// Its name, which can be parsed.
    pub device: Device,
    /// The node that it is attached to.
    pub node: Option<NodeId>,
}

/// Why a device has no node.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DeviceError {
    /// It is no name of a device.
    #[error(
        "'{}' is no device: give netdev:NAME, ip:ADDRESS, pci:ADDRESS, block:NAME, file:PATH or \
         gpu:N",
        .0.escaped()
    )]
    Name(String),
    /// There is no such device.
    #[error("there is no device {0}; nodeward show --devices lists those of this machine")]
    Missing(Device),
    /// The firmware did not say where it is.
    #[error("the firmware does not say on which node {0} is; name the node")]
    NoNode(Device),
    /// It consists of devices on several nodes.
    #[error("{0} consists of devices on nodes {1}; name the node")]
    Several(Device, Nodemask),
}

impl FromStr for Device {
    type Err = DeviceError;

    fn from_str(text: &str) -> Result<Self, DeviceError> {
        let wrong = || DeviceError::Name(text.to_owned());
        let (kind, name) = text.split_once(':').ok_or_else(wrong)?;
        // It becomes a name in a directory of /sys.
        let is_entry = !name.is_empty() && name != "." && name != ".." && !name.contains('/');
        match kind {
            "netdev" if is_entry => Ok(Self::Netdev(name.to_owned())),
            "ip" => name.parse().map(Self::Ip).map_err(|_| wrong()),
            "block" if is_entry => Ok(Self::Block(name.to_owned())),
            "pci" if is_entry && name.matches(':').count() == 1 => {
                Ok(Self::Pci(format!("0000:{name}")))
            }
            "pci" if is_entry => Ok(Self::Pci(name.to_owned())),
            "file" if name.starts_with('/') => Ok(Self::File(name.into())),
            "gpu" => name.parse().map(Self::Gpu).map_err(|_| wrong()),
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Netdev(name) => write!(f, "netdev:{}", name.escaped()),
            Self::Ip(address) => write!(f, "ip:{address}"),
            Self::Pci(address) => write!(f, "pci:{}", address.escaped()),
            Self::Block(name) => write!(f, "block:{}", name.escaped()),
            Self::File(path) => write!(f, "file:{}", path.escaped()),
            Self::Gpu(number) => write!(f, "gpu:{number}"),
        }
    }
}

/// Returns the device that stands for a node on a command line: `near:DEVICE`, or its name alone,
/// as for libnuma. `None` if it is none: numbers of nodes have no colon.
///
/// # Errors
/// If there is no such kind of device, or its name cannot be one.
pub fn named(text: &str) -> Option<Result<Device, DeviceError>> {
    text.contains(':').then(|| text.strip_prefix("near:").unwrap_or(text).parse())
}

/// Returns the node with CPUs that is nearest to a device.
///
/// # Errors
/// If there is no such device, the firmware does not tell its node, or it consists of devices on
/// several nodes.
pub fn near(root: &Path, device: &Device, topology: &Topology) -> Result<NodeId, DeviceError> {
    let folder = folder(root, device).filter(|folder| folder.exists());
    let folder = folder.ok_or_else(|| DeviceError::Missing(device.clone()))?;
    let nodes = nodes_of(root, &folder, LAYERS_MAX);
    match nodes.first() {
        Some(node) if nodes.len() == 1 => Ok(with_cpus(node, topology)),
        Some(_) => Err(DeviceError::Several(device.clone(), nodes)),
        None => Err(DeviceError::NoNode(device.clone())),
    }
}

/// Returns the network interfaces, disks and graphics processors that are real devices, in the
/// order of their names.
pub fn all(root: &Path) -> Vec<FoundDevice> {
    let of_class = |class: &str, device: fn(String) -> Device| -> Vec<FoundDevice> {
        let names = names(&root.join("sys/class").join(class)).into_iter();
        let is_real =
            |name: &String| root.join("sys/class").join(class).join(name).join("device").exists();
        names.filter(is_real).map(|name| found(root, device(name))).collect()
    };
    let gpus = (0..gpus(root).len()).map(|number| found(root, Device::Gpu(number)));
    let mut all = of_class("net", Device::Netdev);
    all.extend(of_class("block", Device::Block));
    all.extend(gpus);
    all
}

fn found(root: &Path, device: Device) -> FoundDevice {
    let node = folder(root, &device).and_then(|folder| node_of(root, &folder));
    FoundDevice { device, node }
}

/// The directory of a device in /sys.
fn folder(root: &Path, device: &Device) -> Option<PathBuf> {
    let sys = root.join("sys");
    let interface = |name: &str| sys.join("class/net").join(name);
    match device {
        Device::Netdev(name) => Some(interface(name)),
        Device::Ip(address) => routes::interface(root, *address).map(|name| interface(&name)),
        Device::Block(name) => Some(sys.join("class/block").join(name)),
        Device::Pci(address) => Some(sys.join("bus/pci/devices").join(address)),
        Device::File(path) => {
            let device = fs::metadata(path).ok()?.dev();
            let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
            Some(sys.join(format!("dev/block/{major}:{minor}")))
        }
        Device::Gpu(number) => gpus(root).into_iter().nth(*number),
    }
}

/// Displays and accelerators, in the order of their addresses.
fn gpus(root: &Path) -> Vec<PathBuf> {
    let devices = root.join("sys/bus/pci/devices");
    let is_gpu = |name: &String| {
        let class =
            kernel_file::read_to_string(devices.join(name).join("class")).unwrap_or_default();
        GPU_CLASSES.iter().any(|begin| class.starts_with(begin))
    };
    names(&devices).into_iter().filter(is_gpu).map(|name| devices.join(name)).collect()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    names
}

/// The nodes of a device: its own, or those of the devices that it consists of.
fn nodes_of(root: &Path, folder: &Path, layers: usize) -> Nodemask {
    if let Some(node) = node_of(root, folder) {
        return Nodemask::from_iter([node]);
    }
    let parts = parts(folder).into_iter().filter(|_| layers > 0);
    parts.flat_map(|part| nodes_of(root, &part, layers - 1).iter().collect::<Vec<_>>()).collect()
}

/// The devices that a device consists of: the disks of a volume, the interfaces of a bond.
fn parts(folder: &Path) -> Vec<PathBuf> {
    let of_disk = folder.join("slaves");
    let disks = names(&of_disk).into_iter().map(|name| of_disk.join(name));
    let below = names(folder).into_iter().filter(|name| name.starts_with("lower_"));
    disks.chain(below.map(|name| folder.join(name))).collect()
}

/// The node in the directory of a device, or in one that it is attached to.
fn node_of(root: &Path, folder: &Path) -> Option<NodeId> {
    let (sys, real) = (root.join("sys").canonicalize().ok()?, folder.canonicalize().ok()?);
    let above = real.ancestors().take(ABOVE_MAX).take_while(|path| path.starts_with(&sys));
    let here = |path: &Path| kernel_file::read_to_string(path.join("numa_node")).ok();
    let text = above.filter_map(here).find(|text| text.trim() != "-1")?;
    text.trim().parse().ok().map(NodeId)
}

fn with_cpus(node: NodeId, topology: &Topology) -> NodeId {
    let has_cpus = |id: &NodeId| topology.nodes.get(id).is_some_and(|it| !it.cpus.is_empty());
    let distance = |to: NodeId| {
        let known = topology.distances.as_ref().and_then(|table| table.get(node, to));
        (known.unwrap_or(u32::MAX), to)
    };
    let with = topology.nodes.keys().copied().filter(has_cpus);
    if has_cpus(&node) { node } else { with.min_by_key(|&to| distance(to)).unwrap_or(node) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine with an interface and a disk at node 1, a virtual interface, a disk whose firmware
    /// says nothing, and two graphics processors, the second on node 2, which has no CPUs.
    fn machine() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join("sys").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let link = |from: &str, to: &str| {
            let from = root.path().join("sys").join(from);
            fs::create_dir_all(from.parent().unwrap()).unwrap();
            std::os::unix::fs::symlink(root.path().join("sys").join(to), from).unwrap();
        };
        for (address, class, node) in [
            ("3b:00.0", "0x020000", 1),
            ("5e:00.0", "0x010802", 1),
            ("af:00.0", "0x030200", 0),
            ("d8:00.0", "0x120000", 2),
            ("00:1f.2", "0x010601", -1),
        ] {
            let folder = format!("devices/pci0000:00/0000:{address}");
            write(&format!("{folder}/class"), &format!("{class}\n"));
            write(&format!("{folder}/numa_node"), &format!("{node}\n"));
            link(&format!("bus/pci/devices/0000:{address}"), &folder);
        }
        let pci = |address: &str| format!("devices/pci0000:00/0000:{address}");
        for (class, name, at) in [
            ("net", "eth0", pci("3b:00.0") + "/net/eth0"),
            ("block", "nvme0n1", pci("5e:00.0") + "/nvme/nvme0/nvme0n1"),
            ("block", "sda", pci("00:1f.2") + "/ata1/sda"),
        ] {
            write(&format!("{at}/uevent"), "");
            link(&format!("{at}/device"), &pci("3b:00.0"));
            link(&format!("class/{class}/{name}"), &at);
        }
        for (class, name) in [("net", "lo"), ("net", "bond0"), ("block", "dm-0"), ("block", "md0")]
        {
            write(&format!("devices/virtual/{class}/{name}/uevent"), "");
            link(&format!("class/{class}/{name}"), &format!("devices/virtual/{class}/{name}"));
        }
        let disk = pci("5e:00.0") + "/nvme/nvme0/nvme0n1";
        link("devices/virtual/net/bond0/lower_eth0", &(pci("3b:00.0") + "/net/eth0"));
        link("devices/virtual/block/dm-0/slaves/nvme0n1", &disk);
        link("devices/virtual/block/md0/slaves/dm-0", "devices/virtual/block/dm-0");
        link("devices/virtual/block/md0/slaves/gpu", &pci("af:00.0"));
        root
    }

    fn topology() -> Topology {
        "2n 4c 1t 4GiB + 1n 8GiB dist:10/21"
            .parse::<nodeward_model::Synthetic>()
            .unwrap()
            .topology()
    }

    /// Goal: devices are found by their names, also by what they are attached to; what has no CPUs
    /// is replaced by the nearest that has.
    #[test]
    fn devices_have_nodes() {
        let machine = machine();
        let near = |text: &str| near(machine.path(), &text.parse().unwrap(), &topology());
        for text in ["netdev:eth0", "pci:3b:00.0", "pci:0000:5e:00.0", "block:nvme0n1"] {
            assert_eq!(near(text), Ok(NodeId(1)), "{text}");
        }
        for text in ["netdev:bond0", "block:dm-0"] {
            assert_eq!(near(text), Ok(NodeId(1)), "{text} consists of one on node 1");
        }
        let several = DeviceError::Several("block:md0".parse().unwrap(), "0-1".parse().unwrap());
        assert_eq!(near("block:md0"), Err(several));
        assert_eq!(near("gpu:0"), Ok(NodeId(0)));
        assert!(matches!(near("gpu:1"), Ok(NodeId(0 | 1))), "node 2 has no CPUs");
        for text in ["netdev:lo", "block:sda"] {
            assert_eq!(near(text), Err(DeviceError::NoNode(text.parse().unwrap())), "{text}");
        }
        for text in ["netdev:eth1", "gpu:2", "pci:ff:00.0", "file:/nonexistent"] {
            assert_eq!(near(text), Err(DeviceError::Missing(text.parse().unwrap())), "{text}");
        }
    }

    /// Goal: an address is where the interface is by which it is reached.
    #[test]
    fn addresses_have_nodes() {
        let machine = machine();
        let table = "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n\
                     eth0 0000000A 00000000 0001 0 0 0 000000FF 0 0 0\n";
        fs::create_dir_all(machine.path().join("proc/net")).unwrap();
        fs::write(machine.path().join("proc/net/route"), table).unwrap();
        let near = |text: &str| near(machine.path(), &text.parse().unwrap(), &topology());
        assert_eq!(near("ip:10.1.2.3"), Ok(NodeId(1)));
        for text in ["ip:11.1.2.3", "ip:2001:db8::1"] {
            assert_eq!(near(text), Err(DeviceError::Missing(text.parse().unwrap())), "{text}");
        }
    }

    /// Goal: the list has real devices only, with names that are parsed to the same.
    #[test]
    fn all_devices_are_listed() {
        let machine = machine();
        let all = all(machine.path());
        let told: Vec<_> =
            all.iter().map(|one| (one.device.to_string(), one.node.map(|node| node.0))).collect();
        let expected = [
            ("netdev:eth0", Some(1)),
            ("block:nvme0n1", Some(1)),
            ("block:sda", None),
            ("gpu:0", Some(0)),
            ("gpu:1", Some(2)),
        ];
        assert_eq!(told, expected.map(|(name, node)| (name.to_owned(), node)));
        assert!(all.iter().all(|one| one.device.to_string().parse() == Ok(one.device.clone())));
    }

    /// Goal: what is no device is named; no name leads out of its directory.
    #[test]
    fn names_are_checked() {
        for text in [
            "",
            "eth0",
            "netdev:",
            "netdev:../x",
            "block:a/b",
            "pci:.",
            "file:x",
            "gpu:x",
            "usb:1",
            "ip:x",
        ] {
            assert_eq!(text.parse::<Device>(), Err(DeviceError::Name(text.to_owned())));
        }
    }
}
