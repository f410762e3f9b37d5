//! The table of a pager's regions, by their addresses.

use std::sync::{Arc, RwLock, RwLockWriteGuard};

use super::shared::RegionShared;
use crate::sys::block_signals_in_scope;

/// The regions of a pager.
#[derive(Default)]
pub struct RegionTable(RwLock<RegionsByAddress>);

#[derive(Default)]
struct RegionsByAddress {
    /// In ascending order of addresses.
    regions: Vec<Arc<RegionShared>>,
    /// Number of pauses that have not ended.
    pauses: usize,
}

impl RegionTable {
    /// Adds a region. A region that is added during a pause is paused, too.
    pub fn add(&self, region: &Arc<RegionShared>) {
        self.update(|known, others| {
            (0..known.pauses).for_each(|_| region.claims.pause());
            let place =
                known.regions.partition_point(|other| other.mapping.start() < start(region));
            others.append(&mut known.regions);
            others.insert(place, Arc::clone(region));
            std::mem::swap(&mut known.regions, others);
        });
    }

    /// Removes a region.
    pub fn remove(&self, region: &RegionShared) {
        let _held = block_signals_in_scope();
        let mut known = self.write();
        let place = known.regions.iter().position(|other| start(other) == start(region));
        let removed = place.map(|place| known.regions.remove(place));
        drop(known);
        drop(removed); // dropped without the lock
    }

    /// Stops taking pages out of sight in all regions. Returns the regions.
    pub fn pause(&self) -> Vec<Arc<RegionShared>> {
        let regions = self.update(|known, regions| {
            known.pauses += 1;
            regions.extend(known.regions.iter().cloned());
        });
        regions.iter().for_each(|region| region.claims.pause());
        regions
    }

    /// Ends a pause.
    pub fn resume(&self) {
        let _held = block_signals_in_scope();
        let mut known = self.write();
        known.pauses -= 1;
        known.regions.iter().for_each(|region| region.claims.resume());
    }

    /// Calls `serve` with the region that contains an address, if any. Regions cannot be added or
    /// removed meanwhile.
    pub fn with_region_at(&self, address: u64, serve: impl FnOnce(Option<&RegionShared>)) {
        let known = self.0.read().expect("not poisoned");
        let end = known.regions.partition_point(|region| start(region) <= address);
        let before = end.checked_sub(1).map(|last| &*known.regions[last]);
        serve(before.filter(|region| address - start(region) < region.mapping.bytes() as u64));
    }

    /// Runs `change` with a vector that has room for one more region than there are, and returns
    /// the vector's content. No thread allocates, frees or runs a signal handler with the lock.
    fn update(
        &self,
        change: impl FnOnce(&mut RegionsByAddress, &mut Vec<Arc<RegionShared>>),
    ) -> Vec<Arc<RegionShared>> {
        let _held = block_signals_in_scope();
        let mut room = Vec::new();
        loop {
            let mut known = self.write();
            let count = known.regions.len();
            if count < room.capacity() {
                change(&mut known, &mut room);
                drop(known);
                return room;
            }
            drop(known);
            room.reserve(count + 1);
        }
    }

    fn write(&self) -> RwLockWriteGuard<'_, RegionsByAddress> {
        self.0.write().expect("not poisoned")
    }
}

fn start(region: &RegionShared) -> u64 {
    region.mapping.start()
}
