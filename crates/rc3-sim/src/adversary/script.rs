//! A lie at work: the state of its rules.

use std::{collections::VecDeque, time::Duration};

use rc3_core::{
    internals::wire::{Arrival, ControlFrame, Order, ReceiverId},
    units::Receipt,
};

use super::{
    Lie,
    lie::{Act, Claim, Field, Parameter, Rule},
    statement::{Kind, Statement},
};
use crate::random::Random;

/// Largest number of a field on the wire.
const NUMBER_MAX: f64 = ((1_u64 << 62) - 1) as f64;

/// Statements that a replay keeps.
const KEPT_MAX: usize = 4096;

/// The rules of a lie, and what they remember.
pub(super) struct Script {
    rules: Vec<Applied>,
    random: Random,
    /// The newest report, and the stream of the last SACK.
    newest: Option<Arrival>,
    stream: Option<u64>,
}

/// A rule, and what it remembers.
struct Applied {
    rule: Rule,
    change: Change,
    /// Statements to replay, and when they passed.
    kept: VecDeque<(Duration, Statement)>,
    claimed: Option<Duration>,
}

/// The last true value of a field, and what was made of it.
#[derive(Default)]
struct Change {
    last: Option<f64>,
    sum: f64,
    smooth: f64,
}

/// A statement, and how long it waits.
pub(super) type Delayed = (Duration, Statement);

impl Script {
    pub(super) fn new(lie: &Lie, seed: u64) -> Self {
        let applied =
            |&rule: &Rule| Applied { rule, change: Change::default(), kept: VecDeque::new(), claimed: None };
        Self {
            rules: lie.rules.iter().map(applied).collect(),
            random: Random::new(seed),
            newest: None,
            stream: None,
        }
    }

    /// What is stated, and after which delay, in the place of these statements; `at` is the time since the first one.
    pub(super) fn alter(&mut self, at: Duration, statements: Vec<Statement>) -> Vec<Delayed> {
        for statement in &statements {
            match statement {
                Statement::Arrival(arrival) => self.newest = Some(*arrival),
                Statement::Sack { stream, .. } => self.stream = Some(*stream),
                Statement::Order(_) | Statement::Complete(_) => {}
            }
        }
        let mut stated: Vec<Delayed> = statements.into_iter().map(|one| (Duration::ZERO, one)).collect();
        for applied in &mut self.rules {
            match applied.rule.act {
                Act::Claim(claim) => {
                    let made_up = applied.is_due(at).then(|| {
                        let value = applied.rule.value(Parameter::Value) as u64;
                        made_up(claim, value, self.newest, self.stream)
                    });
                    stated.extend(made_up.flatten().map(|statement| (Duration::ZERO, statement)));
                }
                _ => stated = applied.alter(at, stated, &mut self.random),
            }
        }
        stated
    }

    /// How long a packet of the primary waits; `None` if it is not sent.
    pub(super) fn delay_of_primary(&mut self, at: Duration) -> Option<Duration> {
        let mut delay = Duration::ZERO;
        for Applied { rule, .. } in &self.rules {
            match rule.act {
                Act::Withhold(Kind::Primary) if rule.holds(at, &mut self.random) => return None,
                Act::Delay(Kind::Primary) if rule.holds(at, &mut self.random) => delay += rule.by(),
                _ => {}
            }
        }
        Some(delay)
    }

    /// Frames for the control stream.
    pub(super) fn control(&mut self, at: Duration) -> Vec<ControlFrame> {
        let stream = self.stream;
        let frame = |applied: &mut Applied| {
            let Act::Claim(claim) = applied.rule.act else { return None };
            let frame = control_frame(claim, applied.rule.value(Parameter::Value) as u64, stream)?;
            applied.is_due(at).then_some(frame)
        };
        self.rules.iter_mut().filter_map(frame).collect()
    }
}

impl Applied {
    fn alter(&mut self, at: Duration, statements: Vec<Delayed>, random: &mut Random) -> Vec<Delayed> {
        let mut stated = Vec::with_capacity(statements.len());
        for (mut delay, mut statement) in statements {
            match self.rule.act {
                Act::Change(field) => {
                    if let Some(value) = field.of(&statement) {
                        let value = self.change.next(&self.rule, at, value as f64, random);
                        field.set(&mut statement, value.clamp(0.0, NUMBER_MAX) as u64);
                    }
                }
                Act::Withhold(kind) if kind.has(&statement) && self.rule.holds(at, random) => continue,
                Act::Delay(kind) if kind.has(&statement) && self.rule.holds(at, random) => {
                    delay += self.rule.by();
                }
                Act::Replay(kind) if kind.has(&statement) => {
                    if self.rule.holds(at, random) {
                        stated.extend(self.replayed(at).map(|old| (delay, old)));
                    }
                    self.keep(at, &statement);
                }
                _ => {}
            }
            stated.push((delay, statement));
        }
        stated
    }

    /// The newest of the kept statements that is old enough.
    fn replayed(&self, at: Duration) -> Option<Statement> {
        let mut newest_first = self.kept.iter().rev();
        newest_first
            .find(|(passed, _)| at - *passed >= self.rule.by())
            .map(|(_, statement)| statement.clone())
    }

    fn keep(&mut self, at: Duration, statement: &Statement) {
        self.kept.push_back((at, statement.clone()));
        if self.kept.len() > KEPT_MAX {
            self.kept.pop_front();
        }
    }

    /// Whether it is time for the next claim.
    fn is_due(&mut self, at: Duration) -> bool {
        let every = Duration::from_secs_f64(self.rule.value(Parameter::Every) / 1e3);
        let due = self.rule.is_on(at) && self.claimed.is_none_or(|last| at - last >= every);
        if due {
            self.claimed = Some(at);
        }
        due
    }
}

impl Change {
    /// What is stated in the place of `value`.
    fn next(&mut self, rule: &Rule, at: Duration, value: f64, random: &mut Random) -> f64 {
        let of = |parameter| rule.value(parameter);
        let Some(last) = self.last.replace(value) else {
            (self.sum, self.smooth) = (value, value);
            return value;
        };
        let holds = rule.holds(at, random);
        let seconds = at.as_secs_f64() - of(Parameter::From) / 1e3;
        let factor = if holds { of(Parameter::Factor) * of(Parameter::Drift).powf(seconds) } else { 1.0 };
        self.sum += (value - last) * factor;
        self.smooth += (self.sum - self.smooth) * (1.0 - of(Parameter::Smooth));
        if !holds {
            return self.sum;
        }
        let noise = of(Parameter::Noise) * (2.0 * random.unit() - 1.0);
        let stated = self.smooth + of(Parameter::Shift) + noise;
        let grain = of(Parameter::Grain);
        if grain > 0.0 { (stated / grain).floor() * grain } else { stated }
    }
}

impl Rule {
    fn by(&self) -> Duration {
        Duration::from_secs_f64(self.value(Parameter::By) / 1e3)
    }

    /// Whether it is one of its times.
    fn is_on(&self, at: Duration) -> bool {
        let since = at.as_secs_f64() * 1e3 - self.value(Parameter::From);
        let cycle = self.value(Parameter::Cycle);
        since >= 0.0 && (cycle <= 0.0 || since % cycle < cycle * self.value(Parameter::Duty))
    }

    fn holds(&self, at: Duration, random: &mut Random) -> bool {
        let chance = self.value(Parameter::Chance);
        self.is_on(at) && (chance >= 1.0 || random.unit() < chance)
    }
}

impl Field {
    /// Its value, where a statement has it.
    fn of(self, statement: &Statement) -> Option<u64> {
        match (self, statement) {
            (Self::ArrivalNumber, Statement::Arrival(arrival)) => Some(arrival.packet_number),
            (Self::ArrivalDatagrams, Statement::Arrival(arrival)) => Some(arrival.datagrams),
            (Self::ArrivalBytes, Statement::Arrival(arrival)) => Some(arrival.bytes),
            (Self::ArrivalMicros, Statement::Arrival(arrival)) => Some(arrival.micros),
            (Self::OrderNumber, Statement::Order(order)) => Some(order.packet_number),
            (Self::OrderCame, Statement::Order(order)) => Some(order.came),
            (Self::OrderOvertaken, Statement::Order(order)) => Some(order.overtaken),
            (Self::SackStart, Statement::Sack { spans, .. }) => spans.first().map(|(span, _)| span.start),
            (Self::SackEnd, Statement::Sack { spans, .. }) => spans.last().map(|(span, _)| span.end),
            (Self::SackReceipt, Statement::Sack { spans, .. }) => {
                spans.first().map(|(_, receipt)| u64::from(receipt.0))
            }
            _ => None,
        }
    }

    /// Replaces its value. Spans stay in order: what would contradict is cut off.
    fn set(self, statement: &mut Statement, value: u64) {
        match (self, statement) {
            (Self::ArrivalNumber, Statement::Arrival(arrival)) => arrival.packet_number = value,
            (Self::ArrivalDatagrams, Statement::Arrival(arrival)) => arrival.datagrams = value,
            (Self::ArrivalBytes, Statement::Arrival(arrival)) => arrival.bytes = value,
            (Self::ArrivalMicros, Statement::Arrival(arrival)) => arrival.micros = value,
            (Self::OrderNumber, Statement::Order(order)) => order.packet_number = value,
            (Self::OrderCame, Statement::Order(order)) => order.came = value,
            (Self::OrderOvertaken, Statement::Order(order)) => order.overtaken = value,
            (Self::SackStart, Statement::Sack { spans, .. }) => {
                if let Some((span, _)) = spans.first_mut() {
                    span.start = value.min(span.end.saturating_sub(1));
                }
            }
            (Self::SackEnd, Statement::Sack { spans, .. }) => {
                if let Some((span, _)) = spans.last_mut() {
                    span.end = value.max(span.start + 1);
                }
            }
            (Self::SackReceipt, Statement::Sack { spans, .. }) => {
                if let Some((_, receipt)) = spans.first_mut() {
                    *receipt = Receipt(value as u32);
                }
            }
            _ => {}
        }
    }
}

/// A statement that the liar makes up, if the claim is one.
fn made_up(claim: Claim, value: u64, newest: Option<Arrival>, stream: Option<u64>) -> Option<Statement> {
    match claim {
        Claim::Order => {
            let packet_number = newest?.packet_number;
            Some(Statement::Order(Order { packet_number, came: 0, overtaken: value }))
        }
        Claim::Complete => stream.map(Statement::Complete),
        _ => None,
    }
}

/// A frame of the control stream, if the claim is one.
fn control_frame(claim: Claim, value: u64, stream: Option<u64>) -> Option<ControlFrame> {
    let value = value.min(NUMBER_MAX as u64);
    match claim {
        Claim::Order | Claim::Complete => None,
        Claim::Credit => Some(ControlFrame::MaxRlpData(value)),
        Claim::StreamCredit => Some(ControlFrame::MaxRlpStreamData { stream: stream?, limit: value }),
        Claim::ReceiverId => {
            let id = ReceiverId(value.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
            Some(ControlFrame::ReceiverId { number: value, id })
        }
        Claim::Path => Some(ControlFrame::Path(value)),
        Claim::Signal => Some(ControlFrame::Signal { leading: value }),
    }
}
