"""Files of Protobuf that schemas import without naming them among their references.

Confluent's serializers and registries have these built in (`confluent/…`, `google/type/…`), as
protoc has `google/protobuf/…`; Kafka Connect writes decimals, dates and times of day with them.
Here they are without their comments: a file's path, and what it defines.
"""

from __future__ import annotations

META = """
package confluent;
import "google/protobuf/descriptor.proto";
message Meta {
  string doc = 1; map<string, string> params = 2; repeated string tags = 3; repeated Rule rules = 4;
}
message Rule { string name = 1; string doc = 2; string expr = 3; string sql = 4; }
extend google.protobuf.FileOptions { Meta file_meta = 1088; }
extend google.protobuf.MessageOptions { Meta message_meta = 1088; }
extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
extend google.protobuf.EnumOptions { Meta enum_meta = 1088; }
extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }
"""

TYPES = {
    "calendar_period": """enum CalendarPeriod {
        CALENDAR_PERIOD_UNSPECIFIED = 0; DAY = 1; WEEK = 2; FORTNIGHT = 3; MONTH = 4; QUARTER = 5;
        HALF = 6; YEAR = 7; }""",
    "color": """import "google/protobuf/wrappers.proto"; message Color {
        float red = 1; float green = 2; float blue = 3; google.protobuf.FloatValue alpha = 4; }""",
    "date": "message Date { int32 year = 1; int32 month = 2; int32 day = 3; }",
    "datetime": """import "google/protobuf/duration.proto"; message DateTime {
        int32 year = 1; int32 month = 2; int32 day = 3; int32 hours = 4; int32 minutes = 5;
        int32 seconds = 6; int32 nanos = 7;
        oneof time_offset { google.protobuf.Duration utc_offset = 8; TimeZone time_zone = 9; } }
        message TimeZone { string id = 1; string version = 2; }""",
    "dayofweek": """enum DayOfWeek {
        DAY_OF_WEEK_UNSPECIFIED = 0; MONDAY = 1; TUESDAY = 2; WEDNESDAY = 3; THURSDAY = 4;
        FRIDAY = 5; SATURDAY = 6; SUNDAY = 7; }""",
    "decimal": "message Decimal { string value = 1; }",
    "expr": """message Expr {
        string expression = 1; string title = 2; string description = 3; string location = 4; }""",
    "fraction": "message Fraction { int64 numerator = 1; int64 denominator = 2; }",
    "interval": """import "google/protobuf/timestamp.proto"; message Interval {
        google.protobuf.Timestamp start_time = 1; google.protobuf.Timestamp end_time = 2; }""",
    "latlng": "message LatLng { double latitude = 1; double longitude = 2; }",
    "localized_text": "message LocalizedText { string text = 1; string language_code = 2; }",
    "money": "message Money { string currency_code = 1; int64 units = 2; int32 nanos = 3; }",
    "month": """enum Month {
        MONTH_UNSPECIFIED = 0; JANUARY = 1; FEBRUARY = 2; MARCH = 3; APRIL = 4; MAY = 5; JUNE = 6;
        JULY = 7; AUGUST = 8; SEPTEMBER = 9; OCTOBER = 10; NOVEMBER = 11; DECEMBER = 12; }""",
    "phone_number": """message PhoneNumber {
        message ShortCode { string region_code = 1; string number = 2; }
        oneof kind { string e164_number = 1; ShortCode short_code = 2; } string extension = 3; }""",
    "postal_address": """message PostalAddress {
        int32 revision = 1; string region_code = 2; string language_code = 3;
        string postal_code = 4; string sorting_code = 5; string administrative_area = 6;
        string locality = 7; string sublocality = 8; repeated string address_lines = 9;
        repeated string recipients = 10; string organization = 11; }""",
    "quaternion": "message Quaternion { double x = 1; double y = 2; double z = 3; double w = 4; }",
    "timeofday": """message TimeOfDay {
        int32 hours = 1; int32 minutes = 2; int32 seconds = 3; int32 nanos = 4; }""",
}
"""Of the package `google.type`."""

SYNTAX = 'syntax = "proto3";\n'
IN_CONFLUENT, IN_GOOGLE = "package confluent.type; ", "package google.type; "
KNOWN_FILES = {
    "confluent/meta.proto": SYNTAX + META,
    "confluent/type/decimal.proto": f"""{SYNTAX}{IN_CONFLUENT}
        message Decimal {{ bytes value = 1; uint32 precision = 2; int32 scale = 3; }}""",
    "confluent/types/decimal.proto": f'{SYNTAX}import public "confluent/type/decimal.proto";',
    "confluent/type/variant.proto": f"""{SYNTAX}{IN_CONFLUENT}
        message Variant {{ bytes metadata = 1; bytes value = 2; }}""",
    **{f"google/type/{name}.proto": SYNTAX + IN_GOOGLE + text for name, text in TYPES.items()},
}
