//! What keys and news change, story by story.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::args::SortColumn;
use crate::output::topology::Charset;
use crate::results::top::ProcessDetail;
use crate::results::top::test_sample::sample;
use crate::top::model::{MoveStatus, Setup};

fn model(columns: u16, rows: u16) -> Model {
    let setup = Setup { whereabouts: String::new(), charset: Charset::Ascii, has_colours: false };
    let mut model = Model::new(setup, SortColumn::Cpu, String::new());
    update(&mut model, ScreenEvent::Resized(columns, rows));
    update(&mut model, ScreenEvent::Sample(Arc::new(sample())));
    model
}

fn press(model: &mut Model, key: Key) -> Option<ScreenRequest> {
    update(model, ScreenEvent::Key(key))
}

fn type_in(model: &mut Model, text: &str) -> Option<ScreenRequest> {
    text.chars().map(|c| press(model, Key::Char(c))).last().flatten()
}

fn selected(model: &Model) -> u32 {
    model.selected.unwrap().number()
}

/// Goal: the cursor is on a process, and stays on it while rows change their order; at the top it
/// stays at the top. A process that goes leaves it to the next one.
#[test]
fn the_cursor_follows_its_process() {
    let mut model = model(80, 24);
    assert_eq!(selected(&model), 153);
    press(&mut model, Key::Down);
    assert_eq!((selected(&model), model.cursor), (4711, 1));
    type_in(&mut model, "s"); // by memory: 4711, 153, 7, 12
    assert_eq!((selected(&model), model.cursor), (4711, 0));
    press(&mut model, Key::PageDown);
    press(&mut model, Key::Up);
    assert_eq!((selected(&model), model.cursor), (7, 2));
    let mut without = sample();
    without.processes.retain(|process| process.pid.number() != 7);
    update(&mut model, ScreenEvent::Sample(Arc::new(without)));
    assert_eq!((selected(&model), model.cursor), (12, 2));
    press(&mut model, Key::Home);
    let mut only = sample();
    only.processes.truncate(1);
    update(&mut model, ScreenEvent::Sample(Arc::new(only)));
    assert_eq!((selected(&model), model.cursor), (7, 0));
    update(&mut model, ScreenEvent::Sample(Arc::new(TopSample::default())));
    assert_eq!((model.selected, model.cursor), (None, 0));
}

/// Goal: with two rows on the screen the cursor's row is one of them, wherever it goes.
#[test]
fn the_cursor_stays_on_the_screen() {
    let mut model = model(20, 5); // header, heads, two rows, bottom
    for (key, cursor, first) in [
        (Key::Down, 1, 0),
        (Key::Down, 2, 1),
        (Key::End, 3, 2),
        (Key::Down, 3, 2),
        (Key::PageUp, 1, 1),
        (Key::Home, 0, 0),
        (Key::Up, 0, 0),
        (Key::PageDown, 2, 1),
    ] {
        press(&mut model, key);
        assert_eq!((model.cursor, model.first), (cursor, first), "{key:?}");
    }
}

/// Goal: a filter acts while it is typed; Enter keeps it, Escape ends it.
#[test]
fn a_filter_is_typed() {
    let mut model = model(80, 24);
    type_in(&mut model, "/postx");
    assert_eq!((model.rows().len(), model.ask.clone()), (0, Some(Ask::Filter)));
    press(&mut model, Key::Backspace);
    press(&mut model, Key::Enter);
    assert_eq!((selected(&model), model.ask.clone()), (4711, None));
    type_in(&mut model, "/");
    press(&mut model, Key::Escape);
    assert_eq!(model.rows().len(), 4);
    type_in(&mut model, &format!("/{}", "x".repeat(500)));
    assert_eq!(model.filter.len(), TYPED_MAX);
}

/// Goal: a move is asked for twice: nodes are typed, the suggestion being from where the memory is
/// to the home; then the plan is shown, and only a y carries it out.
#[test]
fn a_move_is_planned_before_it_is_made() {
    let mut model = model(80, 24);
    assert_eq!(type_in(&mut model, "m"), None);
    let order = NewMove { pid: model.selected.unwrap(), nodes: "0 1".to_owned() };
    assert_eq!(model.ask, Some(Ask::Nodes(order.clone())));
    assert_eq!(press(&mut model, Key::Enter), Some(ScreenRequest::Plan(order)));
    let proposal = Proposal { number: 7, lines: vec!["Move 1 MiB?".to_owned()] };
    update(&mut model, ScreenEvent::Planned(Ok(proposal.clone())));
    for key in [Key::Enter, Key::Down, Key::Char('x')] {
        assert_eq!(press(&mut model, key), None, "{key:?}");
        assert_eq!(model.ask, Some(Ask::Carry(proposal.clone())), "{key:?}");
    }
    assert_eq!(type_in(&mut model, "y"), Some(ScreenRequest::Carry(7)));
    assert_eq!(model.ask, None);
}

/// Goal: a plan that is refused, or comes after somebody left, moves nothing; one that fails says
/// why.
#[test]
fn a_plan_is_refused() {
    let proposal = || ScreenEvent::Planned(Ok(Proposal { number: 7, lines: Vec::new() }));
    let mut model = model(80, 24);
    type_in(&mut model, "m");
    press(&mut model, Key::Enter);
    update(&mut model, proposal());
    assert_eq!(type_in(&mut model, "n"), Some(ScreenRequest::Forget));
    assert_eq!(model.message.as_deref(), Some("nothing was moved"));
    assert_eq!(update(&mut model, proposal()), Some(ScreenRequest::Forget));
    assert_eq!(model.ask, None);
    assert_eq!(type_in(&mut model, "u"), Some(ScreenRequest::PlanUndo));
    update(&mut model, ScreenEvent::Planned(Err("there is nothing".to_owned())));
    assert_eq!((model.message.as_deref(), model.ask), (Some("there is nothing"), None));
}

/// Goal: a question that a small terminal cannot show is not answered by a y that was meant for
/// something else; it can be left.
#[test]
fn what_cannot_be_read_is_not_answered() {
    let mut model = model(80, 24);
    type_in(&mut model, "m");
    press(&mut model, Key::Enter);
    let lines = vec!["Move 1 MiB?".to_owned(), "  from 0 to 1".to_owned(), "u".to_owned()];
    update(&mut model, ScreenEvent::Planned(Ok(Proposal { number: 7, lines })));
    update(&mut model, ScreenEvent::Resized(80, 5)); // two rows
    assert_eq!(type_in(&mut model, "y"), None);
    update(&mut model, ScreenEvent::Resized(80, 6));
    assert_eq!(type_in(&mut model, "y"), Some(ScreenRequest::Carry(7)));
}

/// Goal: while a move is under way a second one is refused, c stops it after a question, and q
/// asks before it ends with it. When the move ends meanwhile, there is nothing left to ask.
#[test]
fn a_move_under_way() {
    let mut model = model(80, 24);
    type_in(&mut model, "c");
    assert_eq!(model.message.as_deref(), Some("nothing moves that this screen has started"));
    let moving = || ScreenEvent::Moving(MoveStatus { total_bytes: 4, ..MoveStatus::default() });
    update(&mut model, moving());
    for key in ["m", "u"] {
        assert_eq!((type_in(&mut model, key), model.ask.clone()), (None, None));
        assert_eq!(model.message.as_deref(), Some("a move is under way: c stops it"));
    }
    assert_eq!(type_in(&mut model, "cy"), Some(ScreenRequest::Cancel));
    assert_eq!((type_in(&mut model, "q"), model.ask.clone()), (None, Some(Ask::Quit)));
    assert_eq!((type_in(&mut model, "n"), model.ask.clone()), (None, None));
    assert_eq!(type_in(&mut model, "qy"), Some(ScreenRequest::Quit));
    update(&mut model, moving());
    type_in(&mut model, "c");
    update(&mut model, ScreenEvent::Ended("moved 4 B".to_owned()));
    assert_eq!((model.ask.clone(), model.message.as_deref()), (None, Some("moved 4 B")));
    assert_eq!(type_in(&mut model, "q"), Some(ScreenRequest::Quit));
}

/// Goal: a closer look is of the process under the cursor, scrolls to its end and not beyond, and
/// ignores what belongs to another one.
#[test]
fn a_closer_look() {
    let mut model = model(80, 12);
    press(&mut model, Key::Enter);
    assert_eq!(model.look, Look::Detail(Pid::new(153).unwrap()));
    let detail = |pid| ProcessDetail {
        pid: Pid::new(pid).unwrap(),
        at_ns: 0,
        parts: Vec::new(),
        parts_left: 0,
        explanation: "line\n".repeat(40),
        error: None,
    };
    update(&mut model, ScreenEvent::Detail(detail(7)));
    assert!(model.detail.is_none());
    update(&mut model, ScreenEvent::Detail(detail(153)));
    press(&mut model, Key::End);
    assert_eq!(model.first, 40, "a line about its memory, and 40 more");
    press(&mut model, Key::Down);
    assert_eq!(model.first, 40);
    press(&mut model, Key::Escape);
    assert_eq!((model.look, model.first, model.detail.is_none()), (Look::Processes, 0, true));
}

/// Goal: figures that do not come are told to be old, until new ones come.
#[test]
fn old_figures_are_told() {
    let mut model = model(80, 24);
    update(&mut model, ScreenEvent::Late(Duration::from_secs(9)));
    assert_eq!(model.late, Some(Duration::from_secs(9)));
    update(&mut model, ScreenEvent::Sample(Arc::new(sample())));
    assert_eq!(model.late, None);
}

fn any_event() -> impl Strategy<Value = ScreenEvent> {
    let keys = vec![
        Key::Enter,
        Key::Escape,
        Key::Tab,
        Key::Backspace,
        Key::Interrupt,
        Key::Up,
        Key::Down,
        Key::PageUp,
        Key::PageDown,
        Key::Home,
        Key::End,
    ];
    prop_oneof![
        prop::sample::select(keys).prop_map(ScreenEvent::Key),
        prop::sample::select("qscmuyng/?jk0é".chars().collect::<Vec<_>>())
            .prop_map(|c| ScreenEvent::Key(Key::Char(c))),
        (0_u16..130, 0_u16..50).prop_map(|(columns, rows)| ScreenEvent::Resized(columns, rows)),
        (0_usize..5).prop_map(|kept| {
            let mut sample = sample();
            sample.processes.truncate(kept);
            ScreenEvent::Sample(Arc::new(sample))
        }),
        Just(ScreenEvent::Moving(MoveStatus::default())),
        Just(ScreenEvent::Ended(String::new())),
        Just(ScreenEvent::Planned(Ok(Proposal { number: 1, lines: vec![String::new(); 4] }))),
    ]
}

proptest! {
    // Each case draws up to 40 pictures.
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Goal: whatever happens in whatever order, on a terminal of any size: a picture can be drawn,
    /// the cursor is on a row that is shown, and nothing is carried out without a plan.
    #[test]
    fn any_events_leave_a_picture(events in prop::collection::vec(any_event(), 0..40)) {
        let mut model = model(80, 24);
        for event in events {
            let has_plan = matches!(model.ask, Some(Ask::Carry(_)));
            let wanted = update(&mut model, event);
            prop_assert!(has_plan || !matches!(wanted, Some(ScreenRequest::Carry(_))));
            let (columns, rows) = model.size;
            let area = ratatui_core::layout::Rect::new(0, 0, columns, rows);
            crate::top::draw(&model, &mut ratatui_core::buffer::Buffer::empty(area));
            if model.look == Look::Processes && page_rows(&model) > 0 {
                let shown = model.first..model.first + page_rows(&model);
                prop_assert!(shown.contains(&model.cursor), "{shown:?} {}", model.cursor);
            }
        }
    }
}
