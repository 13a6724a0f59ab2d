"""How fast a GPU runs, may run, and what held it back: clocks, performance states, event reasons."""

from __future__ import annotations

from envsnap.collectors._nvml import bit_names, fact, field, flag
from envsnap.keys import Effect, Key, Kind, Lever, Type

COMPUTE, MEMORY, VALIDITY = Effect.COMPUTE, Effect.MEMORY, Effect.VALIDITY
GRAPHICS, SM, MEM, VIDEO = 0, 1, 2, 3
"""nvmlClockType_t."""

EVENT_REASONS = {
    0x1: "gpu_idle", 0x2: "applications_clocks_setting", 0x4: "sw_power_cap", 0x8: "hw_slowdown", 0x10: "sync_boost",
    0x20: "sw_thermal_slowdown", 0x40: "hw_thermal_slowdown", 0x80: "hw_power_brake_slowdown",
    0x100: "display_clock_setting", 0x200: "board_limit", 0x400: "reliability",
}  # fmt: skip
"""nvmlClocksEventReason… and, for the last two, nvmlClocksThrottleReason…."""

UNLOCK = "Show what is set: nvidia-smi -q -d CLOCK; reset: nvidia-smi -i GPU -rac"

FACTS = (
    fact(Key("gpu[].sm_clock_mhz", Type.INTEGER, Kind.CONDITION, "Clock of the streaming multiprocessors.",
             (COMPUTE,), 0.5, advice="Compare under load only; an idle GPU clocks down.", rel_tol=0.02),
         ("nvmlDeviceGetClockInfo", SM)),
    fact(Key("gpu[].graphics_clock_mhz", Type.INTEGER, Kind.CONDITION, "Clock of the graphics domain.",
             (COMPUTE,), 0.4, rel_tol=0.02), ("nvmlDeviceGetClockInfo", GRAPHICS)),
    fact(Key("gpu[].memory_clock_mhz", Type.INTEGER, Kind.CONDITION, "Clock of the GPU's memory; decoding is bound by "
             "it.", (MEMORY,), 0.5, rel_tol=0.02), ("nvmlDeviceGetClockInfo", MEM)),
    fact(Key("gpu[].video_clock_mhz", Type.INTEGER, Kind.CONDITION, "Clock of the video domain.", (), 0.02,
             rel_tol=0.02), ("nvmlDeviceGetClockInfo", VIDEO)),
    fact(Key("gpu[].max_sm_clock_mhz", Type.INTEGER, Kind.IDENTITY, "Highest clock of the streaming multiprocessors.",
             (COMPUTE,), 0.4), ("nvmlDeviceGetMaxClockInfo", SM)),
    fact(Key("gpu[].max_graphics_clock_mhz", Type.INTEGER, Kind.IDENTITY, "Highest clock of the graphics domain.",
             (COMPUTE,), 0.3), ("nvmlDeviceGetMaxClockInfo", GRAPHICS)),
    fact(Key("gpu[].max_memory_clock_mhz", Type.INTEGER, Kind.IDENTITY, "Highest clock of the GPU's memory.",
             (MEMORY,), 0.4), ("nvmlDeviceGetMaxClockInfo", MEM)),
    fact(Key("gpu[].max_video_clock_mhz", Type.INTEGER, Kind.IDENTITY, "Highest clock of the video domain.", (), 0.02),
         ("nvmlDeviceGetMaxClockInfo", VIDEO)),
    fact(Key("gpu[].application_graphics_clock_mhz", Type.INTEGER, Kind.TUNABLE, "Graphics clock that applications "
             "were given with nvidia-smi -ac.", (COMPUTE,), 0.5, Lever.ROOT, UNLOCK),
         ("nvmlDeviceGetApplicationsClock", GRAPHICS)),
    fact(Key("gpu[].application_memory_clock_mhz", Type.INTEGER, Kind.TUNABLE, "Memory clock that applications were "
             "given with nvidia-smi -ac.", (MEMORY,), 0.5, Lever.ROOT, UNLOCK),
         ("nvmlDeviceGetApplicationsClock", MEM)),
    fact(Key("gpu[].default_application_graphics_clock_mhz", Type.INTEGER, Kind.IDENTITY, "Graphics clock that "
             "applications get unless it was set.", (COMPUTE,), 0.2),
         ("nvmlDeviceGetDefaultApplicationsClock", GRAPHICS)),
    fact(Key("gpu[].default_application_memory_clock_mhz", Type.INTEGER, Kind.IDENTITY, "Memory clock that "
             "applications get unless it was set.", (MEMORY,), 0.2), ("nvmlDeviceGetDefaultApplicationsClock", MEM)),
    fact(Key("gpu[].max_customer_boost_graphics_clock_mhz", Type.INTEGER, Kind.TUNABLE, "Highest graphics clock that "
             "the driver boosts to.", (COMPUTE,), 0.3, Lever.ROOT), ("nvmlDeviceGetMaxCustomerBoostClock", GRAPHICS)),
    fact(Key("gpu[].graphics_vf_offset_mhz", Type.INTEGER, Kind.TUNABLE, "Offset added to the graphics clock at every "
             "voltage.", (COMPUTE,), 0.3, Lever.ROOT), "nvmlDeviceGetGpcClkVfOffset"),
    fact(Key("gpu[].memory_vf_offset_mhz", Type.INTEGER, Kind.TUNABLE, "Offset added to the memory clock at every "
             "voltage.", (MEMORY,), 0.3, Lever.ROOT), "nvmlDeviceGetMemClkVfOffset"),
    fact(Key("gpu[].supported_memory_clocks_mhz", Type.INTEGERS, Kind.IDENTITY, "Memory clocks that can be set.",
             (MEMORY,), 0.1), "nvmlDeviceGetSupportedMemoryClocks", take=sorted),
    fact(Key("gpu[].auto_boost", Type.BOOLEAN, Kind.TUNABLE, "Whether clocks rise by themselves above the application "
             "clocks.", (COMPUTE,), 0.3, Lever.ROOT), "nvmlDeviceGetAutoBoostedClocksEnabled",
         take=lambda value: flag(value[0])),
    fact(Key("gpu[].adaptive_clocking", Type.BOOLEAN, Kind.IDENTITY, "Whether the clock follows the voltage's "
             "fluctuations.", (COMPUTE,), 0.02), "nvmlDeviceGetAdaptiveClockInfoStatus", take=flag),
    fact(Key("gpu[].performance_state", Type.INTEGER, Kind.CONDITION, "Performance state, 0 the fastest (P0).",
             (COMPUTE, MEMORY), 0.4), "nvmlDeviceGetPerformanceState"),
    fact(Key("gpu[].supported_performance_states", Type.INTEGERS, Kind.IDENTITY, "Performance states of the GPU.",
             (COMPUTE,), 0.02), "nvmlDeviceGetSupportedPerformanceStates", take=sorted),
    fact(Key("gpu[].clocks_event_reasons", Type.STRINGS, Kind.CONDITION, "What holds the clocks below their highest: "
             "power cap, heat, power brake, a setting, or idleness.", (COMPUTE, MEMORY), 0.6,
             advice="sw_power_cap is normal under full load; hw_slowdown, hw_thermal_slowdown and "
             "hw_power_brake_slowdown point to cooling or power supply."),
         "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons",
         take=bit_names(EVENT_REASONS)),
    *(
        fact(Key(f"gpu[].{name}_violation_nanoseconds", Type.INTEGER, Kind.COUNTER, f"Time that {what}.",
                 (COMPUTE, MEMORY), prior), field(number))
        for name, number, prior, what in (
            ("power", 74, 0.4, "clocks were held down by the power limit"),
            ("thermal", 75, 0.5, "clocks were held down by heat"),
            ("sync_boost", 76, 0.2, "clocks were held down to those of other GPUs of a sync boost group"),
            ("board_limit", 77, 0.4, "clocks were held down by the board's limits"),
            ("low_utilization", 78, 0.05, "clocks were held down because there was little to do"),
            ("reliability", 79, 0.3, "clocks were held down by the limits of voltage"),
            ("application_clocks", 80, 0.2, "clocks were below the application clocks"),
            ("base_clocks", 81, 0.3, "clocks were below the base clocks"),
        )
    ),
    *(
        fact(Key(f"gpu[].{name}_slowdown_nanoseconds", Type.INTEGER, Kind.COUNTER, f"Time that {what}.",
                 (COMPUTE, MEMORY), 0.5), field(number))
        for name, number, what in (
            ("sw_thermal", 269, "the driver lowered clocks because of heat"),
            ("hw_thermal", 270, "hardware halved the clocks because of heat"),
            ("hw_power_brake", 271, "hardware halved the clocks because the power supply asked for it"),
        )
    ),
)  # fmt: skip
