//! Pictures at several sizes.

use std::sync::Arc;

use insta::assert_snapshot;
use nodeward_model::NodeId;
use ratatui_core::backend::TestBackend;
use ratatui_core::terminal::Terminal;

use crate::args::SortColumn;
use crate::output::topology::Charset;
use crate::results::top::test_sample::sample;
use crate::results::top::{MemoryPart, ProcessDetail, TopSample};
use crate::top::model::{Ask, Look, Model, MoveStatus, Proposal, ScreenEvent, Setup};
use crate::top::update::update;

fn model(size: (u16, u16), sample: TopSample) -> Model {
    let setup = Setup {
        whereabouts: " of sim:two-socket".to_owned(),
        charset: Charset::Ascii,
        has_colours: true,
    };
    let mut model = Model::new(setup, SortColumn::Cpu, String::new());
    update(&mut model, ScreenEvent::Resized(size.0, size.1));
    update(&mut model, ScreenEvent::Sample(Arc::new(sample)));
    model
}

fn picture(model: &Model) -> String {
    let (columns, rows) = model.size;
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
    terminal.draw(|frame| super::draw(model, frame.buffer_mut())).unwrap();
    terminal.backend().to_string()
}

fn at_size(columns: u16, rows: u16) -> String {
    picture(&model((columns, rows), sample()))
}

/// Goal: on the smallest usual terminal everything has its place.
#[test]
fn columns_80_rows_24() {
    assert_snapshot!(at_size(80, 24));
}

/// Goal: on a larger one reasons are whole.
#[test]
fn columns_120_rows_40() {
    assert_snapshot!(at_size(120, 40));
}

/// Goal: where there is no room, the rows and a hint are left.
#[test]
fn columns_20_rows_5() {
    assert_snapshot!(at_size(20, 5));
}

/// Goal: one cell is no reason to fail.
#[test]
fn columns_1_rows_1() {
    assert_snapshot!(at_size(1, 1));
}

/// Goal: a plan is shown whole above the keys that answer it.
#[test]
fn a_question() {
    let mut model = model((80, 16), sample());
    let lines = ["Move 259 MiB of process 153 (nodeward-load)?", "  stays: 500 already there"];
    let lines = lines.map(str::to_owned).to_vec();
    model.ask = Some(Ask::Carry(Proposal { number: 1, lines }));
    assert_snapshot!(picture(&model));
}

/// Goal: the row of a process whose memory moves says how far that is, and so does the last line.
#[test]
fn a_move() {
    let mut model = model((100, 16), sample());
    let pid = model.selected;
    update(
        &mut model,
        ScreenEvent::Moving(MoveStatus {
            pid,
            what: "process 153 (nodeward-load)".to_owned(),
            done_bytes: 100 << 20,
            total_bytes: 400 << 20,
            moved_bytes: 90 << 20,
            is_stopping: true,
        }),
    );
    assert_snapshot!(picture(&model));
}

/// Goal: a closer look has the reasons and the memory part by part; a path that a terminal would
/// obey is escaped.
#[test]
fn a_closer_look() {
    let mut model = model((100, 18), sample());
    let pid = model.selected.unwrap();
    model.look = Look::Detail(pid);
    let part = |what: &str, path: &[u8], mib: u64| MemoryPart {
        what: what.to_owned(),
        path: path.into(),
        bytes: [(NodeId(0), mib << 20)].into(),
    };
    let parts = vec![
        part("7f0000000000-7f0010000000 anonymous", b"", 256),
        part("7f0020000000-7f0020300000 file", b"/tmp/\x1b[2J\x9b", 3),
    ];
    let explanation = "process 153 (nodeward-load): stays at home on 1\n  why      runs-there\n";
    update(
        &mut model,
        ScreenEvent::Detail(ProcessDetail {
            pid,
            at_ns: 67_000_000_000,
            parts,
            parts_left: 2,
            explanation: explanation.to_owned(),
            error: None,
        }),
    );
    assert_snapshot!(picture(&model));
}

/// Goal: groups have rows like processes.
#[test]
fn groups() {
    let mut model = model((80, 12), sample());
    model.look = Look::Groups;
    assert_snapshot!(picture(&model));
}

/// Goal: of more nodes than bars have room for the largest shares are told.
#[test]
fn many_nodes() {
    let mut many = sample();
    let nodes = (0..8).map(|node| crate::results::top::NodeFigures {
        node: NodeId(node),
        ..many.nodes[0].clone()
    });
    many.nodes = nodes.collect();
    assert_snapshot!(picture(&model((80, 24), many)));
}

/// Goal: the keys fit the smallest usual terminal.
#[test]
fn the_keys() {
    let mut model = model((80, 24), sample());
    model.look = Look::Help;
    assert_snapshot!(picture(&model));
}

/// Goal: before the first figures something is shown.
#[test]
fn no_figures_yet() {
    let mut model = model((60, 4), sample());
    model.sample = None;
    assert_snapshot!(picture(&model));
}
