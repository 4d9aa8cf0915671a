//! Means and quantiles of a few hundred values.

/// Values in order.
#[derive(Debug, Clone)]
pub(crate) struct Sample(Vec<f64>);

impl FromIterator<f64> for Sample {
    fn from_iter<T: IntoIterator<Item = f64>>(values: T) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        Self(values)
    }
}

impl Sample {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Not a number if there are none.
    pub(crate) fn mean(&self) -> f64 {
        self.0.iter().sum::<f64>() / self.0.len() as f64
    }

    /// Of the mean, if the values are independent.
    pub(crate) fn standard_error(&self) -> f64 {
        let (n, mean) = (self.0.len() as f64, self.mean());
        (self.0.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n * (n - 1.0))).sqrt()
    }

    /// This part of the values is not above it.
    pub(crate) fn quantile(&self, part: f64) -> f64 {
        let rank = (part * self.0.len() as f64).ceil() as usize;
        self.0.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
    }

    /// Each value with the part that is not above it.
    pub(crate) fn distribution(&self) -> impl Iterator<Item = (f64, f64)> {
        let n = self.0.len() as f64;
        self.0.iter().enumerate().map(move |(index, value)| (*value, (index + 1) as f64 / n))
    }
}
