//! What the kernel itself counts of migrations, in /proc/vmstat: everybody may read it, and it has
//! no callers and no times.

use std::path::Path;

use nodeward_machine::{Error, Result};

use crate::kernel_file;

/// Counts since the boot. What the kernel does not count is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MigrationCounters {
    /// Base pages that were migrated, for whatever reason.
    pub migrated_pages: Option<u64>,
    /// Base pages that stayed.
    pub failed_pages: Option<u64>,
    /// Huge pages (THP) that were migrated; each counts as one.
    pub thp_migrated: Option<u64>,
    /// Huge pages that stayed.
    pub thp_failed: Option<u64>,
    /// Huge pages that were split for it.
    pub thp_split: Option<u64>,
    /// Base pages that NUMA balancing migrated.
    pub balanced_pages: Option<u64>,
    /// Base pages that reclaim moved to slower nodes.
    pub demoted_pages: Option<u64>,
    /// Base pages that compaction looked at, to migrate them.
    pub scanned_pages: Option<u64>,
}

impl MigrationCounters {
    /// Reads the counts of the machine whose files are below `root`. Cost: a file.
    ///
    /// # Errors
    ///
    /// `Read`; `Unsupported` if the kernel migrates no pages.
    pub fn read(root: &Path) -> Result<Self> {
        let path = root.join("proc/vmstat");
        let counters = match kernel_file::read(&path) {
            Ok(text) => Self::parse(&String::from_utf8_lossy(&text)),
            Err(source) => return Err(Error::Read { path, source }),
        };
        if counters.migrated_pages.is_none() {
            return Err(Error::Unsupported {
                action: "migration of pages",
                reason: "the kernel lacks CONFIG_MIGRATION".to_owned(),
            });
        }
        Ok(counters)
    }

    fn parse(text: &str) -> Self {
        let count = |name: &str| {
            let value = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok();
            text.lines().find_map(value)
        };
        let demotions = ["kswapd", "direct", "khugepaged", "proactive"];
        let demoted = demotions.map(|by| count(&format!("pgdemote_{by}")));
        Self {
            migrated_pages: count("pgmigrate_success"),
            failed_pages: count("pgmigrate_fail"),
            thp_migrated: count("thp_migration_success"),
            thp_failed: count("thp_migration_fail"),
            thp_split: count("thp_migration_split"),
            balanced_pages: count("numa_pages_migrated"),
            demoted_pages: demoted.into_iter().flatten().reduce(u64::saturating_add),
            scanned_pages: count("compact_migrate_scanned"),
        }
    }

    /// Returns what came after `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let since = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?));
        Self {
            migrated_pages: since(self.migrated_pages, earlier.migrated_pages),
            failed_pages: since(self.failed_pages, earlier.failed_pages),
            thp_migrated: since(self.thp_migrated, earlier.thp_migrated),
            thp_failed: since(self.thp_failed, earlier.thp_failed),
            thp_split: since(self.thp_split, earlier.thp_split),
            balanced_pages: since(self.balanced_pages, earlier.balanced_pages),
            demoted_pages: since(self.demoted_pages, earlier.demoted_pages),
            scanned_pages: since(self.scanned_pages, earlier.scanned_pages),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn read(text: &str) -> Result<MigrationCounters> {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("proc")).unwrap();
        fs::write(root.path().join("proc/vmstat"), text).unwrap();
        MigrationCounters::read(root.path())
    }

    /// Goal: each count comes from its own line, demotions of all kinds are one count (3 + 4), and
    /// what the kernel does not count is unknown. Names that begin alike are not mixed up.
    #[test]
    fn counts_are_read() {
        let counters = read(
            "pgmigrate_success 100\npgmigrate_fail 2\nnuma_pages_migrated_x 9\n\
             thp_migration_success 1\npgdemote_kswapd 3\npgdemote_direct 4\n\
             compact_migrate_scanned 50\n",
        );
        let expected = MigrationCounters {
            migrated_pages: Some(100),
            failed_pages: Some(2),
            thp_migrated: Some(1),
            demoted_pages: Some(3 + 4),
            scanned_pages: Some(50),
            ..MigrationCounters::default()
        };
        assert_eq!(counters.unwrap(), expected);
    }

    /// Goal: a period is the difference; what is unknown stays so.
    #[test]
    fn a_period_is_the_difference() {
        let before = read("pgmigrate_success 100\nnuma_pages_migrated 60\n").unwrap();
        let after = read("pgmigrate_success 130\nnuma_pages_migrated 75\n").unwrap();
        let period = after.since(&before);
        assert_eq!((period.migrated_pages, period.balanced_pages), (Some(30), Some(15)));
        assert_eq!(period.failed_pages, None);
    }

    /// Goal: a kernel that migrates nothing, and a file that is not there, are told.
    #[test]
    fn what_cannot_be_counted_is_told() {
        let told = |result: Result<MigrationCounters>| result.unwrap_err().to_string();
        assert!(told(read("nr_free_pages 9\n")).contains("CONFIG_MIGRATION"));
        let nowhere = tempfile::tempdir().unwrap();
        assert!(told(MigrationCounters::read(nowhere.path())).contains("proc/vmstat"));
    }
}
