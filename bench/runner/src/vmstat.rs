//! The counters of /proc/vmstat.

/// Returns a counter; `None` if the kernel has none of that name.
pub fn counter(vmstat: &str, name: &str) -> Option<u64> {
    let value = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok();
    vmstat.lines().find_map(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a counter is found by its whole name.
    #[test]
    fn counters_have_whole_names() {
        let vmstat = "numa_hint_faults_local 7\nnuma_hint_faults 12\npgmigrate_success 3\n";
        let found = ["numa_hint_faults", "pgmigrate_success", "pgmigrate"];
        assert_eq!(found.map(|name| counter(vmstat, name)), [Some(12), Some(3), None]);
    }
}
