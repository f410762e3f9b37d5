//! Transparent huge pages that are made and split.

use nodeward_linux::trouble::{Meddling, meddle};

use super::{Made, Means, Site, one};
use crate::ground::Use;
use crate::hand::{Fault, Hand, failed};
use crate::lot::Lot;
use crate::setting::Setting;

pub const WHAT: &str = "transparent huge pages on and off, made and split all the time; compaction";

const HUGE: &str = "/sys/kernel/mm/transparent_hugepage";

struct Sizes {
    lots: Vec<Lot<'static>>,
    enabled: Setting,
    compact: Option<Setting>,
    _settings: Vec<Setting>,
}

pub fn make(site: &mut Site<'_>) -> Made {
    site.needs_the_machine()?;
    let enabled = Setting::change(&format!("{HUGE}/enabled"), "always")?;
    let settings = [("scan_sleep_millisecs", "10"), ("alloc_sleep_millisecs", "10")];
    let change = |(file, text)| Setting::change(&format!("{HUGE}/khugepaged/{file}"), text);
    let settings = settings.into_iter().map(change).collect::<Result<Vec<_>, _>>()?;
    let compact = Setting::orders("/proc/sys/vm/compact_memory");
    one(Sizes { lots: site.ground.lots(Use::Plain), enabled, compact, _settings: settings })
}

impl Means for Sizes {
    fn step(&mut self, hand: &mut Hand) -> Result<(), Fault> {
        match hand.dice.below(8) {
            0 => {
                hand.post.does("THP always", 0..0);
                self.enabled.set("always");
            }
            1 => {
                hand.post.does("THP never", 0..0);
                self.enabled.set("never");
            }
            2 => {
                hand.post.does("compact", 0..0);
                self.compact.iter().for_each(|compact| compact.set("1"));
            }
            _ => (),
        }
        let lot = hand.one_of(&mut self.lots);
        hand.turn(lot)?;
        let pages = hand.pages(lot);
        let how = hand.dice.one_of(&[Meddling::HugePages, Meddling::BasePages]);
        hand.does("madvise sizes", lot, &pages);
        meddle(lot.words_of(pages.clone()), how).map_err(failed("madvise"))?;
        Ok(lot.check(pages)?)
    }

    fn lots(&mut self) -> &mut [Lot<'static>] {
        &mut self.lots
    }
}
