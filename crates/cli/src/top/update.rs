//! What keys and news change.

use std::sync::Arc;

use nodeward_model::Pid;

use super::key::Key;
use super::model::{Ask, Look, Model, NewMove, Proposal, ScreenEvent, ScreenRequest};
use super::view::{detail_lines, page_rows, question_fits};
use crate::results::top::{ProcessFigures, TopSample};

/// The longest text that can be typed, in characters.
const TYPED_MAX: usize = 60;

/// Enters what happened; returns what others are to do because of it.
pub fn update(model: &mut Model, event: ScreenEvent) -> Option<ScreenRequest> {
    match event {
        ScreenEvent::Key(key) => {
            let wanted = pressed(model, key);
            follow_selection(model);
            return wanted;
        }
        ScreenEvent::Resized(columns, rows) => model.size = (columns, rows),
        ScreenEvent::Sample(sample) => refreshed(model, sample),
        ScreenEvent::Detail(detail) => {
            if model.look == Look::Detail(detail.pid) {
                model.detail = Some(detail);
            }
        }
        ScreenEvent::Planned(planned) => return plan_came(model, planned),
        ScreenEvent::Moving(status) => model.moving = Some(status),
        ScreenEvent::Ended(words) => {
            model.moving = None;
            model.message = Some(words);
            if matches!(model.ask, Some(Ask::Cancel | Ask::Quit)) {
                model.ask = None;
            }
        }
        ScreenEvent::Said(words) => model.message = Some(words),
        ScreenEvent::Late(late) => model.late = Some(late),
    }
    follow_selection(model);
    None
}

fn refreshed(model: &mut Model, sample: Arc<TopSample>) {
    model.history.push(&sample);
    model.sample = Some(sample);
    model.late = None;
}

/// A plan that comes after somebody went on to something else is of no use.
fn plan_came(model: &mut Model, planned: Result<Proposal, String>) -> Option<ScreenRequest> {
    if model.ask != Some(Ask::Planning) {
        return Some(ScreenRequest::Forget);
    }
    model.ask = None;
    match planned {
        Ok(proposal) => model.ask = Some(Ask::Carry(proposal)),
        Err(why) => model.message = Some(why),
    }
    None
}

fn pressed(model: &mut Model, key: Key) -> Option<ScreenRequest> {
    if key == Key::Redraw {
        return Some(ScreenRequest::Redraw);
    }
    model.message = None;
    match model.ask.take() {
        None => browse(model, key),
        Some(Ask::Filter) => {
            typed_filter(model, key);
            None
        }
        Some(Ask::Nodes(order)) => typed_nodes(model, order, key),
        Some(question) => answered(model, question, key),
    }
}

/// A key while nothing is asked.
fn browse(model: &mut Model, key: Key) -> Option<ScreenRequest> {
    match key {
        Key::Char('q') | Key::Interrupt => return leave(model),
        Key::Char('?') => model.look = Look::Help,
        Key::Escape => back(model),
        Key::Enter => drill(model),
        Key::Tab | Key::Char('g') => turn(model),
        Key::Char('/') => {
            (model.look, model.ask) = (Look::Processes, Some(Ask::Filter));
        }
        Key::Char('s') => model.sort = model.sort.next(),
        Key::Char('m') if is_free(model) => model.ask = new_move(model).map(Ask::Nodes),
        Key::Char('c') => cancel(model),
        Key::Char('u') if is_free(model) => {
            model.ask = Some(Ask::Planning);
            return Some(ScreenRequest::PlanUndo);
        }
        _ => step(model, key),
    }
    None
}

/// Ends, but not while a move is under way that would end with it.
fn leave(model: &mut Model) -> Option<ScreenRequest> {
    if model.moving.is_none() {
        return Some(ScreenRequest::Quit);
    }
    model.ask = Some(Ask::Quit);
    None
}

/// Goes back: from a closer look, from the filter.
fn back(model: &mut Model) {
    match model.look {
        Look::Processes => model.filter.clear(),
        Look::Groups | Look::Detail(_) | Look::Help => model.look = Look::Processes,
    }
    (model.detail, model.first) = (None, 0);
}

fn drill(model: &mut Model) {
    if let (Look::Processes, Some(pid)) = (model.look, model.selected) {
        (model.look, model.detail, model.first) = (Look::Detail(pid), None, 0);
    }
}

fn turn(model: &mut Model) {
    model.look = if model.look == Look::Groups { Look::Processes } else { Look::Groups };
    (model.cursor, model.first) = (0, 0);
}

/// The process that a key is about.
fn subject(model: &Model) -> Option<Pid> {
    match model.look {
        Look::Processes => model.selected,
        Look::Detail(pid) => Some(pid),
        Look::Groups | Look::Help => None,
    }
}

/// Returns whether nothing moves; otherwise says so.
fn is_free(model: &mut Model) -> bool {
    let is_free = model.moving.is_none();
    if !is_free {
        model.message = Some("a move is under way: c stops it".to_owned());
    }
    is_free
}

fn new_move(model: &Model) -> Option<NewMove> {
    let pid = subject(model)?;
    Some(NewMove { pid, nodes: model.suggestion(pid) })
}

fn cancel(model: &mut Model) {
    match &model.moving {
        Some(_) => model.ask = Some(Ask::Cancel),
        None => model.message = Some("nothing moves that this screen has started".to_owned()),
    }
}

fn typed_filter(model: &mut Model, key: Key) {
    match key {
        Key::Enter => {}
        Key::Escape | Key::Interrupt => model.filter.clear(),
        key => {
            edit(&mut model.filter, key);
            model.ask = Some(Ask::Filter);
        }
    }
    if matches!(key, Key::Up | Key::Down | Key::PageUp | Key::PageDown) {
        step(model, key);
    }
}

fn typed_nodes(model: &mut Model, mut order: NewMove, key: Key) -> Option<ScreenRequest> {
    match key {
        Key::Escape | Key::Interrupt => None,
        Key::Enter if order.nodes.trim().is_empty() => None,
        Key::Enter => {
            model.ask = Some(Ask::Planning);
            Some(ScreenRequest::Plan(order))
        }
        key => {
            edit(&mut order.nodes, key);
            model.ask = Some(Ask::Nodes(order));
            None
        }
    }
}

fn edit(text: &mut String, key: Key) {
    match key {
        Key::Char(c) if text.chars().count() < TYPED_MAX => text.push(c),
        Key::Backspace => {
            text.pop();
        }
        _ => {}
    }
}

/// A key while a question is open. Only a `y` is a yes.
fn answered(model: &mut Model, question: Ask, key: Key) -> Option<ScreenRequest> {
    model.ask = Some(question.clone());
    let fits = question_fits(model);
    model.ask = None;
    let is_yes = matches!(key, Key::Char('y' | 'Y')) && fits;
    let is_no = matches!(key, Key::Char('n' | 'N' | 'q') | Key::Escape | Key::Interrupt);
    match question {
        Ask::Carry(proposal) if is_yes => Some(ScreenRequest::Carry(proposal.number)),
        Ask::Cancel if is_yes => Some(ScreenRequest::Cancel),
        Ask::Quit if is_yes => Some(ScreenRequest::Quit),
        Ask::Planning | Ask::Carry(_) if is_no => {
            model.message = Some("nothing was moved".to_owned());
            Some(ScreenRequest::Forget)
        }
        _ if is_no => None,
        question => {
            model.ask = Some(question);
            None
        }
    }
}

/// The number of rows, or of lines, of what is shown.
fn row_count(model: &Model) -> usize {
    match model.look {
        Look::Groups => model.sample.as_ref().map_or(0, |sample| sample.groups.len()),
        Look::Processes => model.rows().len(),
        Look::Detail(pid) => detail_lines(model, pid).len(),
        Look::Help => 0,
    }
}

/// Moves the cursor, or the text of a closer look.
fn step(model: &mut Model, key: Key) {
    let page = page_rows(model).max(1);
    let last = row_count(model).saturating_sub(1);
    let from = match model.look {
        Look::Detail(_) => model.first,
        _ => model.cursor,
    };
    let to = match key {
        Key::Up | Key::Char('k') => from.saturating_sub(1),
        Key::Down | Key::Char('j') => from + 1,
        Key::PageUp => from.saturating_sub(page),
        Key::PageDown => from + page,
        Key::Home => 0,
        Key::End => last,
        _ => return,
    };
    match model.look {
        Look::Detail(_) => model.first = to.min(last),
        _ => model.cursor = to.min(last),
    }
    if model.look == Look::Processes {
        let selected = model.rows().get(model.cursor).map(|process| process.pid);
        model.selected = selected;
    }
}

/// Puts the cursor on the row of the selected process; if that is gone, on the one that took its
/// place. At the top it stays there, whoever that is. Then brings that row onto the screen.
fn follow_selection(model: &mut Model) {
    match model.look {
        Look::Detail(_) | Look::Help => return,
        Look::Groups => model.cursor = model.cursor.min(row_count(model).saturating_sub(1)),
        Look::Processes => {
            let rows = model.rows();
            let is_selected = |process: &&ProcessFigures| Some(process.pid) == model.selected;
            let here = rows.iter().position(is_selected).filter(|_| model.cursor > 0);
            let cursor = here.unwrap_or(model.cursor).min(rows.len().saturating_sub(1));
            let selected = rows.get(cursor).map(|process| process.pid);
            (model.cursor, model.selected) = (cursor, selected);
        }
    }
    let page = page_rows(model).max(1);
    let earliest = (model.cursor + 1).saturating_sub(page);
    model.first = model.first.clamp(earliest, model.cursor);
}

#[cfg(test)]
mod tests;
