//! Progress by steps: a bar on a terminal, a line per step elsewhere, or nothing.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::{log, transfer::progress::Style};

/// Shows the steps of a command on standard error.
#[derive(Debug)]
pub(crate) struct Steps {
    style: Style,
    bar: Option<ProgressBar>,
}

impl Steps {
    /// In this style, for this number of steps.
    pub(crate) fn new(style: Style, steps: u64) -> Self {
        let bar = (style == Style::Bar).then(|| {
            let bar = ProgressBar::with_draw_target(Some(steps), ProgressDrawTarget::stderr_with_hz(10));
            // The template is constant; if it were wrong, the default bar would be used.
            if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len}  {msg}") {
                bar.set_style(style.progress_chars("=> "));
            }
            bar
        });
        Self { style, bar }
    }

    /// What comes now, beside the bar or as a line.
    pub(crate) fn print_step(&self, text: String) {
        match &self.bar {
            Some(bar) => bar.set_message(text),
            None if self.style == Style::Lines => log::line(&text),
            None => {}
        }
    }

    /// A step is done, with this result.
    pub(crate) fn done(&self, text: String) {
        self.print_step(text);
        if let Some(bar) = &self.bar {
            bar.inc(1);
        }
    }

    /// A heading above the bar, or as a line.
    pub(crate) fn head(&self, text: String) {
        match &self.bar {
            Some(bar) => bar.println(text),
            None => self.print_step(text),
        }
    }

    /// Removes the bar.
    pub(crate) fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
