//! A control group that has no room for the copies of pages.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::Ordering::Relaxed;

use nodeward_model::{NodeId, SkipReason};
use nodeward_pager::{
    Backend, Error, Migration, PagePool, Pager, PagerOptions, Placement, PoolError, PoolOptions,
    Region, RegionOptions, RunRequest, Supply,
};

const MIB: usize = 1 << 20;
const BYTES: usize = 64 * MIB;

/// The folder of the group that the child works in.
const CGROUP_VARIABLE: &str = "NODEWARD_TEST_GROUP";

/// A control group of our own, with the file names of its cgroup version.
struct TestCgroup {
    folder: PathBuf,
    limit: &'static str,
    used: &'static str,
}

impl TestCgroup {
    const CGROUP_LAYOUTS: [(&'static str, &'static str, &'static str); 2] = [
        ("/sys/fs/cgroup", "memory.max", "memory.current"),
        ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
    ];

    fn open(folder: &Path) -> Option<Self> {
        let has = |(_, limit, _): &&(_, &str, _)| folder.join(limit).exists();
        let (_, limit, used) = Self::CGROUP_LAYOUTS.iter().find(has)?;
        Some(Self { folder: folder.to_owned(), limit, used })
    }

    /// Makes a group, where that is allowed.
    fn new(test: &str) -> Option<Self> {
        Self::CGROUP_LAYOUTS.iter().find_map(|(place, ..)| {
            let folder = Path::new(place).join(format!("nodeward-{test}-{}", std::process::id()));
            fs::create_dir(&folder).ok()?;
            Self::open(&folder).or_else(|| {
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

/// Goal: where a control group has no room for copies the pages stay, and are reported; the process
/// lives and nothing is lost. With a little room all pages move, one after another.
#[test]
fn a_group_without_room() {
    in_cgroup("a_group_without_room", region_in_cgroup);
}

/// Goal: a page pool takes all the room of a control group, then reports that there is none; the
/// process lives, and memory that it frees can be handed out again.
#[test]
fn a_pool_in_a_group_without_room() {
    in_cgroup("a_pool_in_a_group_without_room", pool_in_cgroup);
}

/// Runs `inside` in a group, in a process of its own, which runs only this test.
fn in_cgroup(test: &str, inside: fn(&TestCgroup)) {
    if let Some(folder) = std::env::var_os(CGROUP_VARIABLE) {
        let group = TestCgroup::open(Path::new(&folder)).unwrap();
        fs::write(group.folder.join("cgroup.procs"), "0").unwrap();
        return inside(&group);
    }
    let Some(group) = TestCgroup::new(test) else {
        return eprintln!("skipped: no control group for memory can be made here; run as root");
    };
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", test, "--nocapture"]);
    let ended = child.env(CGROUP_VARIABLE, &group.folder).status().unwrap();
    fs::remove_dir(&group.folder).unwrap();
    assert!(ended.success(), "{ended}");
}

fn migrate(region: &Region) -> nodeward_pager::MigrationReport {
    let how = Migration { supply: Supply::OneWay, even_if_there: true, ..Default::default() };
    region.migrate(0..BYTES, NodeId(0), &how).unwrap()
}

/// The work of the child in the group.
fn region_in_cgroup(group: &TestCgroup) {
    let pager = Pager::open(&PagerOptions::default()).unwrap();
    if pager.backend() != Backend::Move {
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

    // Recycled pages of earlier batches make room for later ones.
    group.allow_more(24 * MIB);
    let report = migrate(&region);
    assert_eq!((report.account.moved, report.account.skipped_total()), (pages, 0), "{report:?}");
    let wrong = region.words().iter().zip(0..).find(|(word, index)| word.load(Relaxed) != *index);
    assert!(wrong.is_none(), "{wrong:?}");
}

/// The work of the other child.
fn pool_in_cgroup(group: &TestCgroup) {
    let options = PoolOptions { housekeeper: false, ..PoolOptions::default() };
    let pool = PagePool::open(&options).unwrap();
    // Capacity for all runs, so that the vector needs no memory later.
    let mut runs = Vec::with_capacity(16 * MIB / pool.page_bytes());
    for allowed in [4, 16] {
        group.allow_more(allowed * MIB);
        for order in [0, 4] {
            let end = loop {
                match pool.run(&RunRequest { order, ..RunRequest::default() }) {
                    Ok(mut run) => {
                        run.fill(1);
                        runs.push(run);
                    }
                    Err(error) => break error,
                }
            };
            assert_eq!(end, PoolError::NoMemory { order });
            let held = pool.stats().held_pages as usize * pool.page_bytes();
            eprintln!("{allowed} MiB: {} runs of order {order}, {held} bytes", runs.len());
            assert!(runs.len() >= 16 && held <= allowed * MIB, "{} runs", runs.len());
            runs.clear();
            pool.give_back();
            assert_eq!(pool.stats().held_pages, 0);
        }
    }
}
