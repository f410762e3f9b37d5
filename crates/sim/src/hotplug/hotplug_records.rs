//! Records of the actions on the machine.

use crate::statistics::HotplugRecord;
use crate::world::World;

impl World {
    /// Opens a record for an action that takes parts of the machine offline or brings them back.
    pub(crate) fn begin_hotplug(&mut self, action: usize) -> usize {
        let (began_ns, ended_ns) = (self.now_ns, None);
        self.hotplugs.push(HotplugRecord { action, began_ns, ended_ns, done: 0, stayed: 0 });
        self.hotplugs.len() - 1
    }

    pub(crate) fn end_hotplug(&mut self, record: usize, done: u64, stayed: u64) {
        let record = &mut self.hotplugs[record];
        (record.ended_ns, record.done, record.stayed) = (Some(self.now_ns), done, stayed);
    }
}
