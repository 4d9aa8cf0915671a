//! The questions and answers of a sweep, sans-IO.

use std::collections::{BTreeMap, HashSet};

use kickass::code::Code;

use super::{
    message::{Form, Message, Seen},
    report::{Lengths, Report, Survival},
};

/// What was asked and answered so far.
#[derive(Debug, Clone)]
pub struct Tally {
    run: u64,
    tries: u8,
    found: BTreeMap<(Code, Form), Survival>,
    lengths: BTreeMap<Code, Lengths>,
    /// Networks may duplicate packets.
    answered: HashSet<(usize, Form, u8)>,
}

impl Tally {
    /// Nothing yet, of at most `tries` questions for each length and form; `run` is random.
    pub fn new(run: u64, tries: u8) -> Self {
        Self { run, tries, found: BTreeMap::new(), lengths: BTreeMap::new(), answered: HashSet::new() }
    }

    /// A question of this run.
    pub fn question(&self, form: Form, code: Code, attempt: u8) -> Message {
        Message { run: self.run, form, code, attempt }
    }

    /// A question has left this host.
    pub fn asked(&mut self, message: &Message) {
        self.found.entry((message.code, message.form)).or_default().sent += 1;
    }

    /// A datagram arrived. Those that answer no question of this run, or one that is answered, are ignored.
    pub fn heard(&mut self, bytes: &[u8]) {
        let Some((answer, seen)) = Message::parse_answer(bytes) else { return };
        let Message { run, form, code, attempt } = answer;
        let Some(survival) = self.found.get_mut(&(code, form)).filter(|_| run == self.run) else { return };
        // Attempts count from 0.
        if attempt >= self.tries || !self.answered.insert((code.payload_len(), form, attempt)) {
            return;
        }
        survival.arrived += 1;
        if form == Form::Fragmented {
            self.lengths.entry(code).or_default().add(code, seen);
        }
    }

    /// Whether all questions were answered.
    pub fn is_complete(&self) -> bool {
        self.found.values().all(|survival| survival.arrived == survival.sent)
    }

    /// The result; leading fragments have this many bytes of `headers` before their payload.
    pub fn report(&self, headers: usize) -> Report {
        Report::new(&self.found, &self.lengths, headers)
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

    #[test]
    fn answers_count_once_and_only_those_of_this_run() {
        let mut tally = Tally::new(7, 1);
        let message = tally.question(Form::Fragmented, Code::MAX, 0);
        tally.asked(&message);
        assert!(!tally.is_complete());
        tally.heard(&Message { run: 8, ..message }.answer(Seen::Unknown));
        tally.heard(&Message { attempt: 1, ..message }.answer(Seen::Unknown));
        tally.heard(b"kickass!");
        assert!(!tally.report(20).is_answered());
        for _ in 0..2 {
            tally.heard(&message.answer(Seen::Whole));
        }
        assert!(tally.is_complete());
        let row = tally.report(20).lengths[0];
        assert_eq!(row.fragmented, Survival { sent: 1, arrived: 1 });
        assert_eq!(row.leading, Lengths { known: 1, kept: 0, reassembled: 1 });
    }
}
