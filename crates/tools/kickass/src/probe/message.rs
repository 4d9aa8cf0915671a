//! Messages between the two sides, in UDP payloads.
//!
//! A question is at least as long as its answer, so forged questions cannot amplify traffic to others.

use kickass::code::Code;

/// Magic number of questions.
const QUESTION: [u8; 8] = *b"kickass?";
/// Magic number of answers.
const ANSWER: [u8; 8] = *b"kickass!";

/// Most attempts of one length and form.
pub const ATTEMPTS_MAX: u16 = 100;

/// How a question was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Form {
    /// Whole, with a payload as long as the code.
    Whole,
    /// As long as possible, fragmented at the code.
    Fragmented,
    /// In IPv6: whole, with a Fragment header (RFC 6946).
    Atomic,
}

impl Form {
    fn from_byte(byte: u8) -> Option<Self> {
        [Self::Whole, Self::Fragmented, Self::Atomic].into_iter().find(|form| *form as u8 == byte)
    }
}

/// In which length the fragments of a question reached the answering host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// Unknown: the host must not look, or has missed it.
    Unknown,
    /// As one packet without fragments.
    Whole,
    /// The leading fragment had this many bytes of payload.
    Leading(u16),
}

impl Seen {
    /// Fragments that are not the last have a positive multiple of 8 bytes, so 1 is free.
    const WHOLE: u16 = 1;

    fn to_number(self) -> u16 {
        match self {
            Self::Unknown => 0,
            Self::Whole => Self::WHOLE,
            Self::Leading(len) => len,
        }
    }

    fn from_number(number: u16) -> Self {
        match number {
            0 => Self::Unknown,
            Self::WHOLE => Self::Whole,
            len => Self::Leading(len),
        }
    }
}

/// A question, or the answer to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbeMessage {
    /// Random, one for each sweep.
    pub run: u64,
    /// How the question was sent.
    pub form: Form,
    /// The probed length.
    pub code: Code,
    /// How often it was probed before.
    pub attempt: u8,
}

impl ProbeMessage {
    /// Length of an answer in bytes, and shortest length of a question.
    pub const LEN: usize = 22;

    /// The question in a UDP payload of this many bytes, at least [`Self::LEN`].
    pub fn question(&self, len: usize) -> Vec<u8> {
        let mut bytes = self.bytes(QUESTION, Seen::Unknown).to_vec();
        bytes.resize(len.max(Self::LEN), 0);
        bytes
    }

    /// Parses a question; its further content is ignored.
    pub fn parse_question(bytes: &[u8]) -> Option<Self> {
        Self::parse(bytes, QUESTION).map(|(message, _)| message)
    }

    /// The answer to this question, which arrived like that.
    pub fn answer(&self, seen: Seen) -> [u8; Self::LEN] {
        self.bytes(ANSWER, seen)
    }

    /// Parses an answer.
    pub fn parse_answer(bytes: &[u8]) -> Option<(Self, Seen)> {
        Self::parse(bytes, ANSWER)
    }

    /// The identification of the question's packets: distinct for all questions of a sweep.
    pub fn identification(&self) -> u16 {
        // Lengths of codes are multiples of 8 up to 1480, and 8 times 44 is more than the attempts of all three forms.
        1 + u16::from(self.attempt) + self.form as u16 * ATTEMPTS_MAX + self.code.payload_len() as u16 * 44
    }

    fn bytes(&self, kind: [u8; 8], seen: Seen) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..8].copy_from_slice(&kind);
        bytes[8..16].copy_from_slice(&self.run.to_be_bytes());
        // Lengths of codes are below 2^16.
        bytes[16..18].copy_from_slice(&(self.code.payload_len() as u16).to_be_bytes());
        bytes[18] = self.form as u8;
        bytes[19] = self.attempt;
        bytes[20..].copy_from_slice(&seen.to_number().to_be_bytes());
        bytes
    }

    fn parse(bytes: &[u8], kind: [u8; 8]) -> Option<(Self, Seen)> {
        let bytes: &[u8; Self::LEN] = bytes.first_chunk()?;
        let (begin, rest) = bytes.split_first_chunk::<8>()?;
        let (run, rest) = rest.split_first_chunk::<8>()?;
        let &[high, low, form, attempt, seen_high, seen_low] = rest else { return None };
        if *begin != kind {
            return None;
        }
        let message = Self {
            run: u64::from_be_bytes(*run),
            form: Form::from_byte(form)?,
            code: Code::from_len(u16::from_be_bytes([high, low]).into())?,
            attempt,
        };
        Some((message, Seen::from_number(u16::from_be_bytes([seen_high, seen_low]))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_repeats_its_question_and_how_it_arrived() {
        for form in [Form::Whole, Form::Fragmented, Form::Atomic] {
            let message = ProbeMessage { run: 7, form, code: Code::MAX, attempt: 2 };
            assert_eq!(ProbeMessage::parse_question(&message.question(1000)), Some(message));
            for seen in [Seen::Unknown, Seen::Whole, Seen::Leading(1480)] {
                let answer = message.answer(seen);
                assert_eq!(ProbeMessage::parse_answer(&answer), Some((message, seen)));
                assert_eq!(message.question(0).len(), answer.len());
            }
        }
    }

    #[test]
    fn all_questions_of_a_sweep_have_identifications_of_their_own() {
        let mut seen = std::collections::HashSet::new();
        for code in Code::all() {
            for form in [Form::Whole, Form::Fragmented, Form::Atomic] {
                for attempt in 0..ATTEMPTS_MAX as u8 {
                    let message = ProbeMessage { run: 7, form, code, attempt };
                    assert!(seen.insert(message.identification()), "{message:?}");
                }
            }
        }
        assert!(!seen.contains(&0));
    }

    #[test]
    fn what_is_no_question_is_none() {
        let message = ProbeMessage { run: 7, form: Form::Whole, code: Code::MIN, attempt: 0 };
        let question = message.question(100);
        let answer = message.answer(Seen::Whole);
        assert_eq!(
            ProbeMessage::parse_question(&answer),
            None,
            "two listeners would answer each other for ever"
        );
        for at in [0, 17, 18] {
            let mut broken = question.clone();
            broken[at] ^= 0x83;
            assert_eq!(ProbeMessage::parse_question(&broken), None, "{at}");
        }
        assert_eq!(ProbeMessage::parse_question(&question[..ProbeMessage::LEN - 1]), None);
        assert_eq!(ProbeMessage::parse_answer(&question), None);
    }
}
