// --- the same kernels on the host, one thread per block ------------------------------------------

#ifndef __CUDACC__
template <class... Types, unsigned long... I>
static void call(void (*kernel)(Types...), void** arguments, std::index_sequence<I...>) {
    kernel(*(Types*)arguments[I]...);
}
template <class... Types>
static void run(void (*kernel)(Types...), unsigned x, unsigned y, void** arguments) {
    gridDim = {x, y, 1};
    for (unsigned j = 0; j < y; j++)
        for (unsigned i = 0; i < x; i++) {
            blockIdx = {i, j, 0};
            call(kernel, arguments, std::index_sequence_for<Types...>{});
        }
}
#define ON_HOST(kernel)                                                            \
    extern "C" void host_##kernel(unsigned x, unsigned y, void** arguments) {      \
        run(kernel, x, y, arguments);                                              \
    }
ON_HOST(draw_keys)
ON_HOST(mark_rows)
ON_HOST(flip_listed)
ON_HOST(count_lines)
ON_HOST(find_singles)
ON_HOST(gather_bits)
ON_HOST(spread_lines)
ON_HOST(transpose_rows)
ON_HOST(list_components)
ON_HOST(list_keys)
ON_HOST(spread_masks)
ON_HOST(count_places)
ON_HOST(list_columns)
ON_HOST(list_visits)
ON_HOST(count_component)
ON_HOST(count_component_known)
ON_HOST(count_component_of_many)
ON_HOST(draw_short_component)
ON_HOST(draw_component)
ON_HOST(draw_long_component)
ON_HOST(draw_components)
ON_HOST(draw_components_known)
ON_HOST(count_component_by_class)
ON_HOST(count_component_by_class_known)
ON_HOST(count_component_by_class_of_many)
ON_HOST(draw_short_by_class)
ON_HOST(draw_by_class)
ON_HOST(draw_long_by_class)
ON_HOST(unpack_short_counts)
ON_HOST(unpack_counts)
ON_HOST(unpack_long_counts)
ON_HOST(count_rows)
ON_HOST(draw_births)
ON_HOST(draw_births_by_class)
ON_HOST(draw_codes)
ON_HOST(birth_death)
ON_HOST(birth_death_by_class)
ON_HOST(count_by_class)
ON_HOST(count_by_column)
ON_HOST(join_rows)
ON_HOST(divide_users)
ON_HOST(settle_users)
ON_HOST(count_shared)
ON_HOST(count_columns)
ON_HOST(weigh_rows)
#endif
