//! Events of a profile, one after the other.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::super::text::short;

/// An event of the profile, as far as it is of use.
#[derive(Debug, Deserialize)]
pub(super) struct Event {
    #[serde(default)]
    pub(super) cat: String,
    #[serde(default)]
    pub(super) name: String,
    /// Its start, µs.
    #[serde(default)]
    pub(super) ts: Micros,
    /// How long it took, µs.
    #[serde(default)]
    pub(super) dur: Micros,
    #[serde(default)]
    pub(super) tid: u64,
    #[serde(default)]
    pub(super) args: Args,
}

/// A time of an event, µs; what stands in its place where it is none.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Micros {
    /// A number.
    Number(f64),
    /// Anything else.
    Other(serde_json::Value),
}

impl Default for Micros {
    fn default() -> Self {
        Self::Other(serde_json::Value::Null)
    }
}

impl Micros {
    /// The number, or what is wrong with it.
    pub(super) fn sound(&self, least: f64) -> Result<f64, String> {
        match self {
            Self::Number(number) if *number < least => Err(format!("is {number}, below 0")),
            Self::Number(number) => Ok(*number),
            Self::Other(serde_json::Value::Null) => Err("is missing".to_owned()),
            Self::Other(other) => Err(format!("is `{}`, no number", short(&other.to_string()))),
        }
    }
}

/// Arguments of an event; whatever else stands in their place says nothing.
#[derive(Debug, Default)]
pub(super) struct Args {
    pub(super) provider: Option<String>,
}

impl<'de> Deserialize<'de> for Args {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Args;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("arguments")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Args, A::Error> {
                let mut args = Args::default();
                while let Some(key) = map.next_key::<String>()? {
                    if key == "provider" {
                        args.provider = match map.next_value()? {
                            serde_json::Value::String(name) => Some(name),
                            _ => None,
                        };
                    } else {
                        map.next_value::<IgnoredAny>()?;
                    }
                }
                Ok(args)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Args, A::Error> {
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Args::default())
            }

            fn visit_unit<E>(self) -> Result<Args, E> {
                Ok(Args::default())
            }

            fn visit_str<E>(self, _: &str) -> Result<Args, E> {
                Ok(Args::default())
            }
        }
        deserializer.deserialize_any(Any)
    }
}

/// Takes every event of the array, or of `traceEvents` of an object.
pub(super) struct Events<'a>(pub(super) &'a mut dyn FnMut(Event));

impl<'de> DeserializeSeed<'de> for Events<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Events<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of events")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(event) = list.next_element()? {
            (self.0)(event);
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            if key == "traceEvents" {
                map.next_value_seed(Events(&mut *self.0))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}
