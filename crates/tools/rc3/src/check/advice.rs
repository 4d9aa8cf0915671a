//! Which marks to send with, from the marks that arrive and the bursts that overtake.

use std::collections::BTreeMap;

use rc3_net::{
    Level,
    marks::{DSCP_LOWER_EFFORT, MarkChoice, Marks},
};
use serde::{Serialize, Serializer};

/// The reason for the advice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// Normal priority overtook low priority.
    Overtaken,
    /// Packets with the default marks do not arrive.
    DefaultIsDropped,
    /// No marks are better than the default, as far as measured.
    NothingBetter,
}

/// Marks to send with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct MarkAdvice {
    /// As `--marks` names them.
    #[serde(serialize_with = "mark_name")]
    pub marks: MarkChoice,
    /// Why.
    pub reason: Reason,
}

/// The name for `--marks`.
pub(super) fn mark_name<S: Serializer>(choice: &MarkChoice, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(choice.name())
}

impl MarkAdvice {
    /// What to remember of it: only marks with evidence.
    pub fn evidence(self) -> Option<MarkChoice> {
        (self.reason != Reason::NothingBetter).then_some(self.marks)
    }

    pub(super) fn text(self) -> String {
        let marks = self.marks.name();
        match self.reason {
            Reason::Overtaken => {
                format!(
                    "  use --marks {marks}: normal priority overtook low priority; `rc3 send` uses them by default for a day\n"
                )
            }
            Reason::DefaultIsDropped => format!(
                "  ! packets marked LE do not arrive: use --marks {marks}; `rc3 send` uses them by default for a day\n"
            ),
            Reason::NothingBetter => format!("  no other marks did better than --marks {marks}\n"),
        }
    }
}

/// `seen` has the marks that arrived, sent and received values; `overtaken` lists the choices with which normal priority
/// overtook.
///
/// A mark that merely arrives is no evidence: some networks serve CS1 above best effort.
pub(super) fn advise(seen: &BTreeMap<u8, u8>, overtaken: impl Iterator<Item = MarkChoice>) -> MarkAdvice {
    // A network that changes the code points of levels may serve them otherwise behind that.
    let is_kept = |choice: &MarkChoice| {
        let table = Marks::from(*choice);
        let mut levels = (0..=Level::MAX.get()).filter_map(Level::new).map(|level| table.dscp(level));
        *choice != MarkChoice::PerLevel || levels.all(|dscp| seen.get(&dscp) == Some(&dscp))
    };
    if let Some(marks) = overtaken.filter(is_kept).min() {
        return MarkAdvice { marks, reason: Reason::Overtaken };
    }
    if seen.contains_key(&0) && !seen.contains_key(&DSCP_LOWER_EFFORT) {
        return MarkAdvice { marks: MarkChoice::None, reason: Reason::DefaultIsDropped };
    }
    MarkAdvice { marks: MarkChoice::default(), reason: Reason::NothingBetter }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_overtaken_wins_and_the_default_stays_without_evidence() {
        let all: BTreeMap<u8, u8> = (0..64).map(|dscp| (dscp, dscp)).collect();
        let advice = advise(&all, [MarkChoice::Raised, MarkChoice::Cs1].into_iter());
        assert_eq!((advice.marks, advice.evidence()), (MarkChoice::Cs1, Some(MarkChoice::Cs1)));
        let advice = advise(&all, std::iter::empty());
        assert_eq!((advice.marks, advice.evidence()), (MarkChoice::LowerEffort, None));
        let bleached = (0..64).map(|dscp| (dscp, 0)).collect();
        assert_eq!(advise(&bleached, std::iter::empty()).reason, Reason::NothingBetter, "it does no harm");
    }

    #[test]
    fn marks_per_level_are_used_where_all_arrive_and_are_overtaken() {
        let overtaken = || [MarkChoice::LowerEffort, MarkChoice::PerLevel].into_iter();
        let mut seen: BTreeMap<u8, u8> = (0..64).map(|dscp| (dscp, dscp)).collect();
        assert_eq!(advise(&seen, overtaken()).evidence(), Some(MarkChoice::PerLevel));
        assert_eq!(advise(&seen, std::iter::empty()).evidence(), None, "arrival alone is no evidence");
        seen.insert(59, 3);
        assert_eq!(advise(&seen, overtaken()).evidence(), Some(MarkChoice::LowerEffort));
    }

    #[test]
    fn marks_that_are_dropped_are_not_used() {
        let seen = (0..64).filter(|&dscp| dscp != DSCP_LOWER_EFFORT).map(|dscp| (dscp, dscp)).collect();
        let advice = advise(&seen, std::iter::empty());
        assert_eq!((advice.marks, advice.reason), (MarkChoice::None, Reason::DefaultIsDropped));
    }
}
