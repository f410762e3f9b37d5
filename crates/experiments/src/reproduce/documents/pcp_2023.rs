//! Table "pcp": per-CPU page lists that size themselves (2023). It covers page_fault1, a kernel
//! build, SCTP over loopback, and the time that a zone's lock is held for a batch.

mod build;
mod drivers;
mod faults;
mod loopback;
mod tuning;
mod zone;

use crate::reproduce::figure_table::{DocumentTable, Fitted};

/// The table.
pub fn table() -> DocumentTable {
    let runs = [faults::runs(), build::runs(), loopback::runs(), zone::runs()];
    let rows = [faults::rows(), build::rows(), loopback::rows(), zone::rows()];
    DocumentTable {
        name: "pcp",
        title: "Per-CPU page lists that size themselves (2023)",
        about: "\
            Two sockets of Sapphire Rapids with 224 CPUs, and two of Ice Lake with 128. Lists of \
            370 pages are those of Linux before 6.7; lists that follow the depth are the RFC's. A \
            zone's lock is held for its visit and for each page, and costs more when it comes from \
            another CPU that waited. Of the kernel build and of SCTP one socket is simulated, as \
            the other one has a zone and processes of its own.",
        runs: runs.into_iter().flatten().collect(),
        fitted: fitted(),
        rows: rows.into_iter().flatten().collect(),
        beyond: Some(loopback::beyond()),
    }
}

fn fitted() -> Vec<Fitted> {
    let fit = |parameter, value, on| Fitted { parameter, value, on };
    vec![
        fit("zone-handoff", "2300ns", "page_fault1 with short lists"),
        fit("fault", "1500ns", "page_fault1 with lists that follow the depth"),
        fit("cpu-time of cc", "560ms", "the build with short lists: waits for locks"),
        fit("memory of cc", "720MiB", "the build with long lists: giving pages back"),
        fit("lru-hold", "39ns", "the build with long lists: the lock of a group's lists"),
        fit("cpu-time of netperf", "5200ns", "SCTP with short lists"),
        fit("wake", "25us", "SCTP with short lists: idle"),
        fit("deep-after", "110us", "SCTP with long lists: idle"),
        fit("probe", "500ns", "SCTP with long lists: p99 of a free"),
        fit("zone-hold", "31.6ns", "Sapphire Rapids, 127 pages given back"),
        fit("zone-visit", "340ns", "Sapphire Rapids, 63 pages given back"),
        fit("zone-refill", "24.2ns", "Sapphire Rapids, 127 pages taken"),
        fit("zone-refill-visit", "1145ns", "Sapphire Rapids, 63 pages taken"),
        fit("zone-hold", "29.4ns", "Ice Lake, 127 pages given back"),
        fit("zone-visit", "360ns", "Ice Lake, 63 pages given back"),
        fit("zone-refill", "23.3ns", "Ice Lake, 127 pages taken"),
        fit("zone-refill-visit", "550ns", "Ice Lake, 63 pages taken"),
    ]
}
