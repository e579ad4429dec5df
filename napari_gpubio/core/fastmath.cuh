#pragma once
// Logarithm, exponential, sine and cosine in float. Counterpart: fastmath.py. With FAST_MATH (the production build on a GPU)
// the special function unit computes them; without it the same polynomials as the backend's, bit for bit.
#if defined(FAST_MATH) && !defined(GPUBIO_ON_CPU)
#define SPECIAL_FUNCTION_UNIT
#endif

__device__ __forceinline__ float minus_log(float u)
{
#ifdef SPECIAL_FUNCTION_UNIT
    return -__logf(u);
#else
    const int bits = __float_as_int(u);
    int exponent = (bits >> 23) - 127;
    float m = __int_as_float((bits & 0x007FFFFF) | 0x3F800000);
    if (m > 1.41421356f) {
        m = m * 0.5f;
        exponent = exponent + 1;
    }
    const float f = m - 1.0f;
    float p = 0.0892735042f;
    p = p * f - 0.143447577f;
    p = p * f + 0.148710846f;
    p = p * f - 0.16566227f;
    p = p * f + 0.199660708f;
    p = p * f - 0.25001732f;
    p = p * f + 0.333338379f;
    const float log_m = f - f * f * (0.5f - f * p);
    return -((float)exponent * 0.693147181f + log_m);
#endif
}

__device__ __forceinline__ float decay(float x)
{
#ifdef SPECIAL_FUNCTION_UNIT
    return __expf(-x);
#else
    const float t = x * 1.44269504f;
    if (t > 125.0f) return 0.0f;
    const int k = (int)(t + 0.5f);
    const float f = (float)k - t;
    float p = 0.000154780207f;
    p = p * f + 0.00134004317f;
    p = p * f + 0.00961799452f;
    p = p * f + 0.0555032722f;
    p = p * f + 0.240226515f;
    p = p * f + 0.693147207f;
    p = p * f + 1.0f;
    return p * __int_as_float((127 - k) << 23);
#endif
}

__device__ __forceinline__ float mean_decay(float x)
{
    if (x < 0.5f) {
        float p = -0.00112402599f;
        p = p * x + 0.00819039131f;
        p = p * x - 0.0416304133f;
        p = p * x + 0.16666248f;
        p = p * x - 0.499999823f;
        return p * x + 1.0f;
    }
    return (1.0f - decay(x)) / x;
}

__device__ __forceinline__ void turn(unsigned int bits, float* cosine, float* sine)
{
#ifdef SPECIAL_FUNCTION_UNIT
    __sincosf((float)bits * 1.46291808e-9f - 0.785398163f, sine, cosine);  // the polynomial begins an eighth earlier
#else
    const float f = (float)(int)(bits & 0x3FFFFFFFu) * 9.31322575e-10f - 0.5f;
    const float z = f * f;
    float s = -0.00460217699f;
    s = s * z + 0.0796802281f;
    s = s * z - 0.645963479f;
    s = (s * z + 1.57079632f) * f;
    float c = 0.000903631702f;
    c = c * z - 0.0208600713f;
    c = c * z + 0.253669204f;
    c = c * z - 1.23370054f;
    c = c * z + 1.0f;
    const unsigned int quarter = bits >> 30;
    *cosine = quarter == 0u ? c : quarter == 1u ? -s : quarter == 2u ? -c : s;
    *sine = quarter == 0u ? s : quarter == 1u ? c : quarter == 2u ? -s : -c;
#endif
}

__device__ __forceinline__ void turned_by(float turns, float* cosine, float* sine)
{
    const float part = turns - floorf(turns);
    turn((unsigned int)((unsigned long long)(part * 4294967296.0f) + 536870912ull), cosine, sine);
}
