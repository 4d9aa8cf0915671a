//! The questions and answers of a sweep, sans-IO.

use std::collections::{BTreeMap, HashSet};

use kickass::code::Code;

use super::{
    message::{Form, ProbeMessage, Seen},
    report::{LengthResult, Lengths, ProbeReport},
};

/// What was asked and answered so far.
#[derive(Debug, Clone)]
pub struct SweepTally {
    run: u64,
    tries: u8,
    headers: usize,
    rows: BTreeMap<Code, LengthResult>,
    /// Networks may duplicate packets.
    answered: HashSet<(Code, Form, u8)>,
}

impl SweepTally {
    /// Nothing yet, of at most `tries` questions for each length and form; `run` is random. Leading fragments have this
    /// many bytes of `headers` before their payload.
    pub fn new(run: u64, tries: u8, headers: usize) -> Self {
        Self { run, tries, headers, rows: BTreeMap::new(), answered: HashSet::new() }
    }

    /// A question of this run.
    pub fn question(&self, form: Form, code: Code, attempt: u8) -> ProbeMessage {
        ProbeMessage { run: self.run, form, code, attempt }
    }

    /// A question has left this host.
    pub fn asked(&mut self, message: &ProbeMessage) {
        let length = self.headers + message.code.payload_len();
        let row = self
            .rows
            .entry(message.code)
            .or_insert_with(|| LengthResult { length, ..LengthResult::default() });
        row.of_mut(message.form).sent += 1;
    }

    /// A datagram arrived. Those that answer no question of this run, or one that is answered, are ignored.
    pub fn heard(&mut self, bytes: &[u8]) {
        let Some((answer, seen)) = ProbeMessage::parse_answer(bytes) else { return };
        let ProbeMessage { run, form, code, attempt } = answer;
        let Some(row) = self.rows.get_mut(&code).filter(|_| run == self.run) else { return };
        // Attempts count from 0.
        if row.of_mut(form).sent == 0 || attempt >= self.tries || !self.answered.insert((code, form, attempt))
        {
            return;
        }
        row.of_mut(form).arrived += 1;
        if form == Form::Fragmented {
            row.leading.add(code, seen);
        }
    }

    /// Whether all questions were answered.
    pub fn is_complete(&self) -> bool {
        self.rows.values().flat_map(LengthResult::of).all(|survival| survival.arrived == survival.sent)
    }

    /// The result.
    pub fn report(&self) -> ProbeReport {
        let lengths: Vec<LengthResult> = self.rows.values().copied().collect();
        let fragments_sent = lengths.iter().any(|row| row.fragmented.sent > 0);
        ProbeReport { lengths, fragments_sent }
    }
}

impl Lengths {
    fn add(&mut self, code: Code, seen: Seen) {
        match seen {
            Seen::Unknown => return,
            Seen::Whole => self.reassembled += 1,
            Seen::Leading(len) if usize::from(len) == code.payload_len() => self.kept += 1,
            Seen::Leading(_) => {}
        }
        self.known += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::report::Survival;

    #[test]
    fn answers_count_once_and_only_those_of_this_run() {
        let mut tally = SweepTally::new(7, 1, 20);
        let message = tally.question(Form::Fragmented, Code::MAX, 0);
        tally.asked(&message);
        assert!(!tally.is_complete());
        tally.heard(&ProbeMessage { run: 8, ..message }.answer(Seen::Unknown));
        tally.heard(&ProbeMessage { attempt: 1, ..message }.answer(Seen::Unknown));
        tally.heard(b"kickass!");
        assert!(!tally.report().is_answered());
        for _ in 0..2 {
            tally.heard(&message.answer(Seen::Whole));
        }
        assert!(tally.is_complete());
        let row = tally.report().lengths[0];
        assert_eq!(row.fragmented, Survival { sent: 1, arrived: 1 });
        assert_eq!(row.leading, Lengths { known: 1, kept: 0, reassembled: 1 });
    }
}
