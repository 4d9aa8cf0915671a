//! Maps values to positions on an axis, and chooses the labelled values.

use rc3_text::units::{BITS_PER_SECOND, BYTES, SECONDS, about, significant};

use crate::chart::{Axis, Scale, Unit};

/// An axis with its limits.
#[derive(Debug, Clone)]
pub(super) struct Range {
    scale: Scale,
    unit: Unit,
    from: f64,
    to: f64,
}

impl Range {
    /// The axis over these values; it ignores those that are not finite, or not positive on a logarithmic axis.
    pub(super) fn new(axis: &Axis, values: impl Iterator<Item = f64>) -> Self {
        let (scale, unit) = (axis.scale.clone(), axis.unit);
        if let Scale::Names(names) = &scale {
            let to = names.len().max(1) as f64 - 0.5;
            return Self { scale, unit, from: -0.5, to };
        }
        let log = scale == Scale::Log;
        let usable = values.filter(|value| value.is_finite() && (!log || *value > 0.0));
        let (low, high) = usable
            .fold(None, |ends: Option<(f64, f64)>, value| {
                Some(ends.map_or((value, value), |(low, high)| (low.min(value), high.max(value))))
            })
            .unwrap_or((1.0, 1.0));
        let (low, high) = if log {
            let single = if high > low { 1.15 } else { 3.5 };
            (axis.from.unwrap_or(low / single), axis.to.unwrap_or(high * single))
        } else {
            let margin = (high - axis.from.unwrap_or(low)) * 0.06;
            (axis.from.unwrap_or(low - margin), axis.to.unwrap_or(high + margin))
        };
        // A single value needs a range too, with a round number in it.
        let to = if high > low { high } else { low.abs().max(0.5) * 10.0 };
        Self { scale, unit, from: low, to }
    }

    /// Position of a value: 0 at the beginning of the axis, 1 at its end.
    pub(super) fn place(&self, value: f64) -> f64 {
        let place = match self.scale {
            Scale::Log => {
                (value.max(self.from / 10.0).ln() - self.from.ln()) / (self.to.ln() - self.from.ln())
            }
            Scale::Linear | Scale::Names(_) => (value - self.from) / (self.to - self.from),
        };
        if place.is_finite() { place.clamp(-0.05, 1.05) } else { 0.0 }
    }

    /// Whether a value is neither before the beginning nor after the end.
    pub(super) fn contains(&self, value: f64) -> bool {
        (self.from..=self.to).contains(&value)
    }

    /// The base of bars: zero if it is on the axis.
    pub(super) fn floor(&self) -> f64 {
        match self.scale {
            Scale::Log => self.from,
            Scale::Linear | Scale::Names(_) => 0.0f64.clamp(self.from.min(self.to), self.to),
        }
    }

    /// Approximate width of a bar in a group as a fraction of the axis, for `points` points.
    pub(super) fn share_of_one(&self, points: usize) -> f64 {
        match &self.scale {
            Scale::Names(names) => 1.0 / names.len().max(1) as f64,
            Scale::Linear | Scale::Log => 1.0 / points.max(1) as f64,
        }
    }

    /// Values with a grid line and a label.
    pub(super) fn ticks(&self) -> Vec<(f64, String)> {
        match &self.scale {
            Scale::Names(names) => {
                names.iter().enumerate().map(|(index, name)| (index as f64, name.clone())).collect()
            }
            Scale::Linear => {
                let ticks = linear(self.from, self.to);
                let step = ticks.windows(2).map(|pair| pair[1] - pair[0]).next().unwrap_or(1.0);
                ticks.into_iter().map(|tick| (tick, text(tick, self.unit, digits(tick, step)))).collect()
            }
            // Each has one digit.
            Scale::Log => logarithmic(self.from, self.to)
                .into_iter()
                .map(|tick| (tick, text(tick, self.unit, 1)))
                .collect(),
        }
    }
}

/// The digits of a multiple of this step: so many that it differs from the next.
fn digits(tick: f64, step: f64) -> usize {
    let power = |value: f64| (value.abs().log10() + 1e-9).floor();
    1 + (power(tick) - power(step)).clamp(0.0, 16.0) as usize
}

/// The label of a value, to so many digits.
fn text(value: f64, unit: Unit, digits: usize) -> String {
    let sign = if value < 0.0 { "-" } else { "" };
    let size = value.abs();
    let number = match unit {
        Unit::Number => significant(size, digits),
        Unit::Share => format!("{} %", significant(size * 100.0, digits)),
        Unit::Seconds => about(size, &SECONDS, digits),
        Unit::Bytes => about(size, &BYTES, digits),
        Unit::BitsPerSecond => about(size, &BITS_PER_SECOND, digits),
    };
    format!("{sign}{number}")
}

/// Multiples of the largest step of 1, 2 or 5 times a power of ten that makes at least four of them.
fn linear(from: f64, to: f64) -> Vec<f64> {
    let whole = to - from;
    if !(whole.is_finite() && whole > 0.0) {
        return vec![from];
    }
    let power = 10f64.powf(whole.log10().floor());
    let steps = [5.0, 2.0, 1.0, 0.5, 0.2, 0.1].map(|factor| factor * power);
    let count = |step: f64| (to / step + 1e-9).floor() - (from / step - 1e-9).ceil() + 1.0;
    let step = steps.into_iter().find(|step| count(*step) >= 4.0).unwrap_or(power * 0.1);
    let first = (from / step - 1e-9).ceil() as i64;
    // Products rather than sums, which would end as 0.30000000000000004.
    let count = ((to - from) / step) as i64 + 2;
    (first..first + count)
        .map(|index| index as f64 * step)
        .take_while(|value| *value <= to + step * 1e-9)
        .collect()
}

/// Powers of ten, with 2 and 5 times them if there are few.
fn logarithmic(from: f64, to: f64) -> Vec<f64> {
    let (first, last) = (from.log10().floor() as i32, to.log10().ceil() as i32);
    let factors: &[f64] = match last - first {
        ..=2 => &[1.0, 2.0, 5.0],
        3..=5 => &[1.0, 3.0],
        _ => &[1.0],
    };
    (first..=last)
        .flat_map(|power| factors.iter().map(move |factor| factor * 10f64.powi(power)))
        .filter(|value| (from * 0.999..=to * 1.001).contains(value))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        assert_eq!(linear(0.0, 1.0), [0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0]);
        assert_eq!(linear(-3.0, 7.0), [-2.0, 0.0, 2.0, 4.0, 6.0]);
        assert_eq!(linear(0.0, 0.93).len(), 5, "20 % rather than 50 %");
        for (from, to) in [(-0.6, 0.95), (0.0, 1.9), (0.0, 1.05), (3.0, 3.01), (-1e6, 1.0)] {
            let ticks = linear(from, to);
            assert!((4..=11).contains(&ticks.len()), "{from} to {to}: {ticks:?}");
            assert!(ticks.iter().all(|tick| (from - 1e-9..=to + 1e-9).contains(tick)), "{ticks:?}");
        }
        assert_eq!(logarithmic(1000.0, 4e6).len(), 8);
        assert_eq!(logarithmic(20.0, 300.0), [20.0, 50.0, 100.0, 200.0]);
        assert_eq!(linear(1.0, 1.0), [1.0]);
        assert_eq!(text(-0.05, Unit::Share, 1), "-5 %");
    }

    #[test]
    fn no_two_labels_of_an_axis_are_the_same() {
        let ranges = [(0.0, 0.009), (0.0, 3e-5), (3.0, 3.01), (-0.004, 0.003), (0.9e6, 1.002e6), (1e-4, 9.0)];
        for unit in [Unit::Number, Unit::Share, Unit::Seconds, Unit::Bytes, Unit::BitsPerSecond] {
            for (scale, (from, to)) in ranges.into_iter().flat_map(|r| [(Scale::Linear, r), (Scale::Log, r)])
            {
                if scale == Scale::Log && from <= 0.0 {
                    continue;
                }
                let axis = Axis::new("", scale, unit).starting(from).ending(to);
                let ticks = Range::new(&axis, std::iter::empty()).ticks();
                let labels: std::collections::HashSet<_> = ticks.iter().map(|(_, label)| label).collect();
                assert_eq!(labels.len(), ticks.len(), "{unit:?}: {ticks:?}");
                for (value, label) in &ticks {
                    let number = || label.parse::<f64>().unwrap();
                    assert!(unit != Unit::Number || (number() - value).abs() < 1e-9, "{value}: {label}");
                }
            }
        }
    }

    #[test]
    fn places_go_from_0_to_1() {
        let axis = Axis::new("", Scale::Log, Unit::Bytes).starting(10.0).ending(1000.0);
        let range = Range::new(&axis, [100.0].into_iter());
        assert!((range.place(100.0) - 0.5).abs() < 1e-12);
        assert_eq!(range.place(0.0), -0.05);
        let names = Scale::Names(vec!["a".to_owned(), "b".to_owned()]);
        let range = Range::new(&Axis::new("", names, Unit::Number), std::iter::empty());
        assert_eq!((range.place(0.0), range.place(1.0)), (0.25, 0.75));
    }

    #[test]
    fn axis_of_nothing_or_of_one_value_has_a_length() {
        for scale in [Scale::Linear, Scale::Log] {
            for values in [vec![], vec![3.0], vec![0.0], vec![f64::NAN]] {
                let range = Range::new(&Axis::new("", scale.clone(), Unit::Number), values.into_iter());
                assert!(range.to > range.from, "{range:?}");
                assert!(!range.ticks().is_empty(), "{range:?}");
            }
        }
    }
}
