//! A control group that has no room for the copies of pages.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::Ordering::Relaxed;

use nodeward_model::{NodeId, SkipReason};
use nodeward_pager::{
    Error, Migration, Pager, PagerOptions, Placement, Region, RegionOptions, Road, Supply,
};

const MIB: usize = 1 << 20;
const BYTES: usize = 64 * MIB;

/// The folder of the group that the child is to work in.
const FOLDER: &str = "NODEWARD_TEST_GROUP";

/// A control group of our own, by the files of its version.
struct Group {
    folder: PathBuf,
    limit: &'static str,
    used: &'static str,
}

impl Group {
    const PLACES: [(&'static str, &'static str, &'static str); 2] = [
        ("/sys/fs/cgroup", "memory.max", "memory.current"),
        ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
    ];

    fn at(folder: &Path) -> Option<Self> {
        let has = |(_, limit, _): &&(_, &str, _)| folder.join(limit).exists();
        let (_, limit, used) = Self::PLACES.iter().find(has)?;
        Some(Self { folder: folder.to_owned(), limit, used })
    }

    /// Makes one, where that is allowed.
    fn new() -> Option<Self> {
        Self::PLACES.iter().find_map(|(place, ..)| {
            let folder = Path::new(place).join(format!("nodeward-test-{}", std::process::id()));
            fs::create_dir(&folder).ok()?;
            Self::at(&folder).or_else(|| {
                fs::remove_dir(&folder).ok();
                None
            })
        })
    }

    fn allow_more(&self, bytes: usize) {
        let used = fs::read_to_string(self.folder.join(self.used)).unwrap();
        let used: usize = used.trim().parse().unwrap();
        fs::write(self.folder.join(self.limit), (used + bytes).to_string()).unwrap();
    }
}

/// Goal: where a control group has no room for copies the pages stay, and are told; the process
/// lives and nothing is lost. With a little room all pages move, one after another.
#[test]
fn a_group_without_room() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return inside(&Group::at(Path::new(&folder)).unwrap());
    }
    let Some(group) = Group::new() else {
        return eprintln!("skipped: no control group for memory can be made here; run as root");
    };
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "a_group_without_room", "--nocapture"]);
    let ended = child.env(FOLDER, &group.folder).status().unwrap();
    fs::remove_dir(&group.folder).unwrap();
    assert!(ended.success(), "{ended}");
}

fn migrate(region: &Region) -> nodeward_pager::Report {
    let how = Migration { supply: Supply::OneWay, even_if_there: true, ..Default::default() };
    region.migrate(0..BYTES, NodeId(0), &how).unwrap()
}

/// What the child does, in the group.
fn inside(group: &Group) {
    fs::write(group.folder.join("cgroup.procs"), "0").unwrap();
    let pager = Pager::open(&PagerOptions::default()).unwrap();
    if pager.road() != Road::Move {
        return eprintln!("skipped: {}", pager.why_not_faster().unwrap_or_default());
    }
    let pages = (BYTES / rustix::param::page_size()) as u64;
    let region = pager.reserve(BYTES, &RegionOptions::default()).unwrap();
    region.commit(0..BYTES, &Placement::Local).unwrap();
    let other = pager.reserve(BYTES, &RegionOptions::default()).unwrap();
    region.words().iter().zip(0..).for_each(|(word, index)| word.store(index, Relaxed));

    group.allow_more(4 * MIB);
    let report = migrate(&region);
    assert_eq!(report.account.moved, 0, "{report:?}");
    assert_eq!(report.account.skipped_for(SkipReason::NoMemory), pages, "{report:?}");
    let committed = other.commit(0..BYTES, &Placement::Node(NodeId(0)));
    assert!(matches!(committed, Err(Error::NoRoom { .. })), "{committed:?}");

    // What is kept of earlier batches makes room for later ones.
    group.allow_more(24 * MIB);
    let report = migrate(&region);
    assert_eq!((report.account.moved, report.account.skipped_total()), (pages, 0), "{report:?}");
    let wrong = region.words().iter().zip(0..).find(|(word, index)| word.load(Relaxed) != *index);
    assert!(wrong.is_none(), "{wrong:?}");
}
