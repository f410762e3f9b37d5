//! Base pages that arrive as huge pages, against the same pages that arrive as base pages.

use nodeward_linux::own_process::{allow_huge_pages, disable_huge_pages};
use nodeward_pager::{
    Arrive, Backend, Migration, Mode, PageSize, Placement, Region, RegionOptions, Supply,
};

use super::bench_row::{ArrivalRatio, HugeArrivalCell};
use super::extras::{SamplePair, rate, ratios};
use super::page_size_bench::{PageSizeBench, pattern};
use super::plan::{Extra, NO_POOL};
use crate::measured_region::system;
use crate::{Error, MeasuredRegion, MigrationSample, median};

/// Batches of less than 2 MiB, so that the kernel fills base pages.
const SMALL_BATCH_BYTES: u64 = 256 << 10;

impl PageSizeBench<'_> {
    /// Measures it, for base pages that the pager moves itself: into huge pages that earlier
    /// migrations emptied, into fresh ones, and where the process gets none.
    pub(super) fn huge_arrival(&mut self) -> Result<(), Error> {
        if !self.wants(Extra::Huge) || self.page != PageSize::Base {
            return Ok(());
        }
        let open =
            |pool| MeasuredRegion::open(self.plan.region_options(PageSize::Base, pool, Mode::Auto));
        let subject = open(NO_POOL)?;
        self.record_backend(&subject);
        if subject.pager().backend() != Backend::Move {
            return Ok(());
        }
        let pattern = pattern(&subject);
        let fresh = self.arrivals(&subject, Supply::OneWay, || Ok(()))?;
        disable_huge_pages().map_err(system("a process without huge pages"))?;
        let without = self.arrivals(&subject, Supply::OneWay, || Ok(()));
        allow_huge_pages().map_err(system("a process with huge pages"))?;
        self.row.findings.add(&pattern.check_all());
        drop(pattern);
        drop(subject);
        let kept = self.kept_huge_pages(&open(self.plan.bytes as u64)?)?;
        self.row.huge_arrival = Some(HugeArrivalCell { kept, fresh, without: without? });
        Ok(())
    }

    /// Measures it with huge pages that another region of the pager leaves behind.
    fn kept_huge_pages(&mut self, subject: &MeasuredRegion) -> Result<ArrivalRatio, Error> {
        let options = RegionOptions { page: PageSize::Huge, ..RegionOptions::default() };
        let donor = subject.pager().reserve(self.plan.bytes, &options)?;
        let pattern = pattern(subject);
        let kept = self.arrivals(subject, Supply::Any, || self.empty_huge_pages(subject, &donor));
        self.row.findings.add(&pattern.check_all());
        kept
    }

    /// Leaves all huge pages of a region empty on the node that the next migration goes to, and
    /// nothing else in the pool.
    fn empty_huge_pages(&self, subject: &MeasuredRegion, donor: &Region) -> Result<(), Error> {
        let all = 0..donor.bytes();
        let here = subject.destination();
        donor.commit(all.clone(), &Placement::Node(here))?;
        donor.migrate(all.clone(), here, &Migration::default())?;
        subject.pager().trim();
        let nodes = self.plan.nodes;
        let there = if here == nodes.to { nodes.from } else { nodes.to };
        let even_if_there = !nodes.are_distinct();
        let one_way = Migration { supply: Supply::OneWay, even_if_there, ..Migration::default() };
        donor.migrate(all, there, &one_way)?;
        Ok(())
    }

    /// Measures pairs of migrations by one lane: one with the wish for huge pages, from `supply`,
    /// and one to fresh base pages. Before each of them all pages are base pages that are fresh
    /// from the kernel, and `prepare` has run.
    fn arrivals(
        &self,
        subject: &MeasuredRegion,
        supply: Supply,
        prepare: impl Fn() -> Result<(), Error>,
    ) -> Result<ArrivalRatio, Error> {
        let one_way = Migration { supply: Supply::OneWay, ..self.how(1) };
        let from_base_pages = |how: &Migration<'_>| -> Result<MigrationSample, Error> {
            subject.migrate(&Migration { batch_bytes: Some(SMALL_BATCH_BYTES), ..one_way })?;
            prepare()?;
            subject.migrate(how)
        };
        let as_huge = Migration { supply, arrive: Some(Arrive::Huge), ..one_way };
        let pairs = self.pairs(|| from_base_pages(&as_huge), || from_base_pages(&one_way))?;
        Ok(ArrivalRatio::of(&pairs))
    }
}

impl ArrivalRatio {
    fn of(pairs: &[SamplePair]) -> Self {
        let reports = || pairs.iter().map(|pair| &pair.one.report);
        let ratios = ratios(pairs);
        Self {
            ratio: median(&ratios),
            ratios,
            arrived: reports().map(|report| report.huge_arrivals).sum(),
            fell_back: reports().map(|report| report.huge_fallbacks).sum(),
            bytes_per_s: rate(pairs.iter().map(|pair| &pair.one)),
            one_way_bytes_per_s: rate(pairs.iter().map(|pair| &pair.other)),
        }
    }
}
