//! A lie at work: the state of its rules.

use std::{collections::VecDeque, time::Duration};

use rc3_core::{
    internals::wire::{Arrival, ControlFrame, Order, ReceiverId},
    units::{Receipt, Span},
};

use super::{Lie, lie::LieRule, statement::Statement};
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
    rule: LieRule,
    change: StateChange,
    /// Statements to replay, and when they passed.
    kept: VecDeque<(Duration, Statement)>,
    claimed: Option<Duration>,
}

/// The last true value of a field, and what was made of it.
#[derive(Default)]
struct StateChange {
    last: Option<f64>,
    sum: f64,
    smooth: f64,
}

/// A statement, and how long it waits.
pub(super) type Delayed = (Duration, Statement);

impl Script {
    pub(super) fn new(lie: &Lie, seed: u64) -> Self {
        let applied = |&rule: &LieRule| Applied {
            rule,
            change: StateChange::default(),
            kept: VecDeque::new(),
            claimed: None,
        };
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
            if applied.rule.verb != "claim" {
                stated = applied.alter(at, stated, &mut self.random);
            } else if applied.take_turn(at) {
                let made_up = made_up(&applied.rule, self.newest, self.stream);
                stated.extend(made_up.map(|statement| (Duration::ZERO, statement)));
            }
        }
        stated
    }

    /// How long a packet of the primary waits; `None` if it is not sent.
    pub(super) fn delay_of_primary(&mut self, at: Duration) -> Option<Duration> {
        let mut delay = Duration::ZERO;
        for Applied { rule, .. } in &self.rules {
            match (rule.verb, rule.object) {
                ("withhold", "primary") if rule.holds(at, &mut self.random) => return None,
                ("delay", "primary") if rule.holds(at, &mut self.random) => delay += rule.by(),
                _ => {}
            }
        }
        Some(delay)
    }

    /// Frames for the control stream.
    pub(super) fn control(&mut self, at: Duration) -> Vec<ControlFrame> {
        let stream = self.stream;
        let frame = |applied: &mut Applied| {
            let frame = control_frame(&applied.rule, stream)?;
            applied.take_turn(at).then_some(frame)
        };
        self.rules.iter_mut().filter_map(frame).collect()
    }
}

impl Applied {
    fn alter(&mut self, at: Duration, statements: Vec<Delayed>, random: &mut Random) -> Vec<Delayed> {
        let mut stated = Vec::with_capacity(statements.len());
        for (mut delay, mut statement) in statements {
            let meant = statement.is(self.rule.object);
            match self.rule.verb {
                "change" => update(self.rule.object, &mut statement, |value| {
                    let stated = self.change.next(&self.rule, at, value as f64, random);
                    stated.clamp(0.0, NUMBER_MAX) as u64
                }),
                "withhold" if meant && self.rule.holds(at, random) => continue,
                "delay" if meant && self.rule.holds(at, random) => delay += self.rule.by(),
                "replay" if meant => {
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

    /// Makes the next claim if it is time for it, and returns whether it was.
    fn take_turn(&mut self, at: Duration) -> bool {
        let every = Duration::from_secs_f64(self.rule.value("every") / 1e3);
        let due = self.rule.is_on(at) && self.claimed.is_none_or(|last| at - last >= every);
        if due {
            self.claimed = Some(at);
        }
        due
    }
}

impl StateChange {
    /// What is stated in the place of `value`.
    fn next(&mut self, rule: &LieRule, at: Duration, value: f64, random: &mut Random) -> f64 {
        let of = |parameter| rule.value(parameter);
        let Some(last) = self.last.replace(value) else {
            (self.sum, self.smooth) = (value, value);
            return value;
        };
        let holds = rule.holds(at, random);
        let seconds = at.as_secs_f64() - of("from") / 1e3;
        let factor = if holds { of("factor") * of("drift").powf(seconds) } else { 1.0 };
        self.sum += (value - last) * factor;
        self.smooth += (self.sum - self.smooth) * (1.0 - of("smooth"));
        if !holds {
            return self.sum;
        }
        let noise = of("noise") * (2.0 * random.unit() - 1.0);
        let stated = self.smooth + of("shift") + noise;
        let grain = of("grain");
        if grain > 0.0 { (stated / grain).floor() * grain } else { stated }
    }
}

impl LieRule {
    fn by(&self) -> Duration {
        Duration::from_secs_f64(self.value("by") / 1e3)
    }

    /// Whether it is one of its times.
    fn is_on(&self, at: Duration) -> bool {
        let since = at.as_secs_f64() * 1e3 - self.value("from");
        let cycle = self.value("cycle");
        since >= 0.0 && (cycle <= 0.0 || since % cycle < cycle * self.value("duty"))
    }

    fn holds(&self, at: Duration, random: &mut Random) -> bool {
        let chance = self.value("chance");
        self.is_on(at) && (chance >= 1.0 || random.unit() < chance)
    }
}

/// Changes a field, where a statement has it. Spans stay in order: what would contradict is cut off.
fn update(field: &str, statement: &mut Statement, change: impl FnOnce(u64) -> u64) {
    let number = match (field, statement) {
        ("arrival.number", Statement::Arrival(arrival)) => &mut arrival.packet_number,
        ("arrival.datagrams", Statement::Arrival(arrival)) => &mut arrival.datagrams,
        ("arrival.bytes", Statement::Arrival(arrival)) => &mut arrival.bytes,
        ("arrival.micros", Statement::Arrival(arrival)) => &mut arrival.micros,
        ("order.number", Statement::Order(order)) => &mut order.packet_number,
        ("order.came", Statement::Order(order)) => &mut order.came,
        ("order.overtaken", Statement::Order(order)) => &mut order.overtaken,
        (field, Statement::Sack { spans, .. }) => return update_sack(field, spans, change),
        _ => return,
    };
    *number = change(*number);
}

fn update_sack(field: &str, spans: &mut [(Span, Receipt)], change: impl FnOnce(u64) -> u64) {
    match (field, spans) {
        ("sack.start", [(span, _), ..]) => span.start = change(span.start).min(span.end.saturating_sub(1)),
        ("sack.end", [.., (span, _)]) => span.end = change(span.end).max(span.start + 1),
        ("sack.receipt", [(_, receipt), ..]) => receipt.0 = change(receipt.0.into()) as u32,
        _ => {}
    }
}

/// A statement that the liar makes up, if the rule claims one.
fn made_up(rule: &LieRule, newest: Option<Arrival>, stream: Option<u64>) -> Option<Statement> {
    match rule.object {
        "order" => {
            let (packet_number, overtaken) = (newest?.packet_number, rule.value("value") as u64);
            Some(Statement::Order(Order { packet_number, came: 0, overtaken }))
        }
        "complete" => stream.map(Statement::Complete),
        _ => None,
    }
}

/// A frame of the control stream, if the rule claims one.
fn control_frame(rule: &LieRule, stream: Option<u64>) -> Option<ControlFrame> {
    let value = rule.value("value").min(NUMBER_MAX) as u64;
    match rule.object {
        "credit" => Some(ControlFrame::MaxRlpData(value)),
        "stream-credit" => Some(ControlFrame::MaxRlpStreamData { stream: stream?, limit: value }),
        "receiver-id" => {
            let id = ReceiverId(value.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
            Some(ControlFrame::ReceiverId { number: value, id })
        }
        "path" => Some(ControlFrame::Path(value)),
        "signal" => Some(ControlFrame::Signal { leading: value }),
        _ => None,
    }
}
