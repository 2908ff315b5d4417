//! The schemas of measurements and fits that ship are those of the types that read them.

use std::path::Path;

use validation::fit::fit_schema;
use validation::published::measurements_schema;

#[test]
fn shipped_schemas_are_of_the_types() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../schemas");
    for (kind, schema) in [
        ("measurements", measurements_schema()),
        ("fit", fit_schema()),
    ] {
        let path = folder.join(format!("{kind}.schema.json"));
        if std::env::var_os("UPDATE_SCHEMAS").is_some() {
            std::fs::write(&path, &schema).unwrap();
        }
        let shipped = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            shipped == schema,
            "schemas/{kind}.schema.json differs from the types; refresh it with `UPDATE_SCHEMAS=1 cargo test -p crossinfer-validation schemas`"
        );
    }
}
