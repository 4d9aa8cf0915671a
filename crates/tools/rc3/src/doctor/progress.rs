//! Progress of a check: a bar on a terminal, a line for each part elsewhere, nothing with JSON.

use std::{
    io::{self, IsTerminal, Write},
    mem,
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rc3_net::marks::MarkChoice;

use super::{Step, flow};

/// Prints progress on standard error.
#[derive(Debug)]
pub enum Progress {
    /// A bar.
    Bar(ProgressBar),
    /// Lines; the last part printed.
    Lines(Option<Step>),
    /// Nothing.
    None,
}

impl Progress {
    /// The style for the terminal.
    pub fn new(json: bool) -> Self {
        if json {
            return Self::None;
        }
        if !io::stderr().is_terminal() {
            return Self::Lines(None);
        }
        let bar = ProgressBar::with_draw_target(Some(PARTS), ProgressDrawTarget::stderr_with_hz(10));
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {percent:>3} %  {msg}") {
            bar.set_style(style.progress_chars("=> "));
        }
        Self::Bar(bar)
    }

    /// Shows a step.
    pub fn show(&mut self, step: Step) {
        match self {
            Self::Bar(bar) => {
                bar.set_position(position(step));
                bar.set_message(text(step));
            }
            Self::Lines(last) => {
                let same = last.is_some_and(|last| is_same_part(last, step));
                if !same {
                    *last = Some(step);
                    let _ = writeln!(io::stderr(), "{}", text(step));
                }
            }
            Self::None => {}
        }
    }

    /// Removes the bar.
    pub fn clear(&self) {
        if let Self::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}

/// Ticks of the bar: about tenths of a second of an undisturbed check.
const PARTS: u64 = 100;

fn position(step: Step) -> u64 {
    let share = |bytes: u64| 20 * bytes.min(flow::BYTES as u64) / flow::BYTES as u64;
    match step {
        Step::Marks => 0,
        Step::Bursts(MarkChoice::LowerEffort) => 20,
        Step::Bursts(MarkChoice::Cs1) => 30,
        Step::Bursts(_) => 40,
        Step::Lengths => 50,
        Step::There(bytes) => 60 + share(bytes),
        Step::Back(bytes) => 80 + share(bytes),
    }
}

fn is_same_part(one: Step, other: Step) -> bool {
    one == other || !matches!(one, Step::Bursts(_)) && mem::discriminant(&one) == mem::discriminant(&other)
}

fn text(step: Step) -> String {
    match step {
        Step::Marks => "which marks arrive".to_owned(),
        Step::Bursts(choice) => format!("overtaking with marks {}", choice.name()),
        Step::Lengths => "how long packets may be".to_owned(),
        Step::There(_) => "a flow there".to_owned(),
        Step::Back(_) => "a flow back".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_goes_forward_and_each_part_has_a_line() {
        let end = flow::BYTES as u64;
        let steps = [
            Step::Marks,
            Step::Bursts(MarkChoice::LowerEffort),
            Step::Bursts(MarkChoice::Cs1),
            Step::Bursts(MarkChoice::Raised),
            Step::Lengths,
            Step::There(0),
            Step::There(end),
            Step::Back(0),
            Step::Back(end),
        ];
        assert!(steps.is_sorted_by_key(|&step| position(step)));
        assert_eq!(position(steps[8]), PARTS);
        let lines = 1 + steps.windows(2).filter(|pair| !is_same_part(pair[0], pair[1])).count();
        assert_eq!(lines, 7);
    }
}
