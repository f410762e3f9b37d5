//! The takeover of the kernel's NUMA balancing: what it was comes back, whatever happens.

use std::path::PathBuf;

use nodeward_balancer::{
    BalanceSettings, Begun, Ended, RivalMode, Takeover, TakeoverError, takeover_file,
};
use nodeward_machine::fake::FakeMachine;
use nodeward_model::OtherBalancer;
use nodeward_records::state::StateFile;

use crate::stage::*;

/// A machine whose kernel balances in a mode, and a directory for the record.
struct Place {
    fake: FakeMachine,
    dir: tempfile::TempDir,
}

impl Place {
    fn new(mode: u32) -> Self {
        let fake = FakeMachine::with_topology(true, "2n 4c 1t 4GiB");
        fake.update_numa_balancing(|balancing| balancing.mode = Some(mode));
        Self { fake, dir: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("balance.takeover")
    }

    fn file(&self) -> StateFile {
        takeover_file(self.path())
    }

    fn begin(&self) -> Takeover {
        match Takeover::begin(&self.fake, Some(self.file())) {
            Ok(Begun::Taken(taken)) => taken,
            Ok(_) => panic!("it was off, or somebody has it"),
            Err(error) => panic!("{error}"),
        }
    }

    /// Takes over, and is killed.
    fn begin_and_die(&self) {
        std::mem::forget(self.begin());
        self.fake.update_numa_balancing(|balancing| balancing.is_held = false);
    }

    fn recover(&self) -> Option<Ended> {
        Takeover::recover(&self.fake, self.file()).unwrap()
    }

    fn mode(&self) -> u32 {
        self.fake.update_numa_balancing(|_| {}).mode.unwrap()
    }

    fn set_mode(&self, mode: u32) {
        self.fake.update_numa_balancing(|balancing| balancing.mode = Some(mode));
    }

    fn assert_nothing_is_left(&self, mode: u32) {
        assert_eq!((self.mode(), self.path().exists()), (mode, false));
        assert!(!self.fake.update_numa_balancing(|_| {}).is_held);
    }
}

/// Goal: each mode is off while it lasts and comes back exactly, at the end as well as when it is
/// dropped on the way of an error; where it was off nothing is done.
#[test]
fn each_mode_comes_back() {
    for mode in [1, 2, 3] {
        let place = Place::new(mode);
        let taken = place.begin();
        assert_eq!((taken.mode(), place.mode(), place.path().exists()), (mode, 0, true));
        assert_eq!(taken.end().unwrap(), Ended::Restored(mode));
        place.assert_nothing_is_left(mode);
        drop(place.begin());
        place.assert_nothing_is_left(mode);
    }
    let place = Place::new(0);
    assert!(matches!(Takeover::begin(&place.fake, Some(place.file())), Ok(Begun::WasOff)));
    place.assert_nothing_is_left(0);
}

/// Goal: after a kill the next start restores the mode, once; before that nothing is to be done.
#[test]
fn a_kill_is_made_good_by_the_next_start() {
    for mode in [1, 2, 3] {
        let place = Place::new(mode);
        assert_eq!(place.recover(), None);
        place.begin_and_die();
        assert_eq!((place.mode(), place.path().exists()), (0, true));
        assert_eq!(place.recover(), Some(Ended::Restored(mode)));
        place.assert_nothing_is_left(mode);
        assert_eq!(place.recover(), None);
    }
}

/// Goal: a kill between the record and the switch, or between the switch back and the record,
/// leaves the mode as it is, and so does one in an earlier boot.
#[test]
fn a_kill_at_any_step() {
    let place = Place::new(3);
    place.begin_and_die();
    place.set_mode(3); // as if it had not been switched off yet, or was switched back
    assert_eq!(place.recover(), Some(Ended::Changed(3)));
    place.assert_nothing_is_left(3);
    place.begin_and_die();
    place.fake.update_numa_balancing(|balancing| balancing.boot_id = "another".to_owned());
    assert_eq!(place.recover(), Some(Ended::OfEarlierBoot));
    place.assert_nothing_is_left(0);
}

/// Goal: who sets the mode meanwhile has the last word, whether we end or were killed.
#[test]
fn others_have_the_last_word() {
    let place = Place::new(1);
    let taken = place.begin();
    place.set_mode(2);
    assert_eq!(taken.end().unwrap(), Ended::Changed(2));
    place.assert_nothing_is_left(2);
    place.begin_and_die();
    place.set_mode(1);
    assert_eq!(place.recover(), Some(Ended::Changed(1)));
    place.assert_nothing_is_left(1);
}

/// Goal: of two with directories of their own the second takes nothing over and restores nothing,
/// neither while the kernel's balancing is off nor when somebody has switched it on.
#[test]
fn the_second_of_us_leaves_it_alone() {
    let place = Place::new(1);
    let first = place.begin();
    let other = takeover_file(place.dir.path().join("other/balance.takeover"));
    let begin = || Takeover::begin(&place.fake, Some(other.clone()));
    assert!(matches!(begin(), Ok(Begun::WasOff)));
    place.set_mode(1);
    assert!(matches!(begin(), Ok(Begun::HeldByOther)));
    place.set_mode(0);
    // A third finds the record of the first, which still runs.
    assert_eq!(place.recover(), Some(Ended::HeldByOther));
    assert_eq!((place.mode(), place.path().exists()), (0, true));
    assert_eq!(first.end().unwrap(), Ended::Restored(1));
    place.assert_nothing_is_left(1);
    let Ok(Begun::Taken(second)) = begin() else { panic!("now it is free") };
    drop(second);
    place.assert_nothing_is_left(1);
}

/// Goal: where the switch may not be opened, or not be changed, nothing is half done, and the error
/// has the remedy; a kernel that has no balancing has nothing to take over.
#[test]
fn what_is_not_permitted_is_not_half_done() {
    let place = Place::new(1);
    let change = |change: fn(&mut nodeward_machine::fake::FakeNumaBalancing)| {
        place.fake.update_numa_balancing(change);
        match Takeover::begin(&place.fake, Some(place.file())) {
            Err(TakeoverError::Switch(error)) => error,
            Err(error) => panic!("{error}"),
            Ok(_) => panic!("it is denied"),
        }
    };
    let error = change(|balancing| balancing.denied = Some("be root".to_owned()));
    assert!(error.is_permission() && error.to_string().contains("be root"), "{error}");
    place.assert_nothing_is_left(1);
    let error = change(|balancing| {
        (balancing.denied, balancing.change_denied) = (None, Some("have more".to_owned()));
    });
    assert!(error.is_permission() && error.to_string().contains("have more"), "{error}");
    place.assert_nothing_is_left(1);
    place.fake.update_numa_balancing(|balancing| balancing.mode = None);
    assert!(matches!(Takeover::begin(&place.fake, Some(place.file())), Ok(Begun::WasOff)));
}

/// Goal: without a place for the record nothing is switched off; a damaged record is an error, and
/// stays for people to look at.
#[test]
fn without_a_record_nothing_is_switched() {
    let place = Place::new(1);
    std::fs::write(place.dir.path().join("file"), "").unwrap();
    let nowhere = takeover_file(place.dir.path().join("file/balance.takeover"));
    let begun = Takeover::begin(&place.fake, Some(nowhere));
    assert!(matches!(begun, Err(TakeoverError::Record(_))));
    let begun = Takeover::begin(&place.fake, None);
    assert!(matches!(begun, Err(TakeoverError::NoRecord)));
    place.assert_nothing_is_left(1);
    std::fs::write(place.path(), "nonsense").unwrap();
    let found = Takeover::recover(&place.fake, place.file());
    assert!(matches!(found, Err(TakeoverError::Record(_))));
    assert_eq!((place.mode(), place.path().exists()), (1, true));
    drop(place.begin()); // which writes its own
    place.assert_nothing_is_left(1);
}

/// Goal: what cannot be restored now is restored by the next start.
#[test]
fn a_failed_restore_is_tried_again() {
    let place = Place::new(2);
    let taken = place.begin();
    let deny = |why: Option<&str>| {
        let why = why.map(str::to_owned);
        place.fake.update_numa_balancing(|balancing| balancing.change_denied = why);
    };
    deny(Some("be root"));
    assert!(taken.end().is_err());
    assert_eq!((place.mode(), place.path().exists()), (0, true));
    deny(None);
    assert_eq!(place.recover(), Some(Ended::Restored(2)));
    place.assert_nothing_is_left(2);
}

/// Goal: a balancer that took over works as if the kernel had no balancing; when somebody switches
/// that on it stands back, does not switch it off again, and says so once.
#[test]
fn a_balancer_that_took_over_does_not_fight() {
    let fake = with(fake_process([0, PAGES], 0, "0-7"));
    fake.update_numa_balancing(|balancing| balancing.mode = Some(1));
    let dir = tempfile::tempdir().unwrap();
    let taken = Takeover::begin(&*fake, Some(takeover_file(dir.path().join("balance.takeover"))));
    let Ok(Begun::Taken(taken)) = taken else { panic!("it is taken over") };
    let settings = BalanceSettings { rivals: RivalMode::TakeOver, ..BalanceSettings::default() };
    let mut balancer = balancer(&fake, settings);
    let reports = rounds(&fake, &mut balancer, 20);
    assert_eq!(runs_on(&fake), 1);
    assert!(reports.iter().all(|report| report.news.is_empty() && !report.stands_back));
    fake.update_numa_balancing(|balancing| balancing.mode = Some(2));
    let reports = rounds(&fake, &mut balancer, 30);
    assert_eq!(reports.iter().map(|report| report.news.len()).sum::<usize>(), 1);
    let last = &reports[29];
    assert_eq!(
        (last.stands_back, &last.rivals[..]),
        (true, &[OtherBalancer::Kernel { mode: 2 }][..])
    );
    assert_eq!(taken.end().unwrap(), Ended::Changed(2));
}
