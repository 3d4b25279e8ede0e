"""The faults of mutants.py: by area, the tests that should notice, and by file, what becomes what.

Tests are what pytest is called with, which leaves out the thorough ones, or after a `$` programs of host_build.py.

Of a text, what lies between « and » is replaced. Texts are short, so that they survive changes nearby; where one does
not occur exactly once any more, test_mutants.py says so.
"""

Row = tuple[str, str] | tuple[str, str, str]  # the third: tests of its own, where those of the area take long

CACHES = "tests/test_inductor.py -k 'a_cache_of or mark_of_caches'"
GRADCHECK = "tests/test_autograd.py -m '' -k 'ordinary and (gradcheck or torch_func)'"
INDEX = "tests/test_index.py tests/test_window.py -k 'numpys or small_sizes or malformed or empty'"
JOINS = "tests/test_properties.py -k join_takes_the_first_order"
STORAGES = "tests/test_unusual_inputs.py -k 'storage or without_memory'"
RULE = "tests/test_inductor.py -k 'rule or a_line_names'"

AREAS: dict[str, tuple[str, dict[str, list[Row]]]] = {
    "operators": (
        "tests/test_refusals.py tests/test_windows_and_lengths.py tests/test_out.py tests/test_results.py "
        "-k 'not on_host'",
        {
            "csrc/ops/slice1.cpp": [
                ("strides[d] < 0 ? «sizes[d] - 1» : 0); }", "sizes[d]"),
                ("require(«w.strides[d] != 0», op", "true"),
                ("require(«w.offsets[d] <= sizes[d] - w.sizes[d]», op", "w.offsets[d] < sizes[d]"),
                ('Name{"input"}, input, «false»)', "true"),
                ("sizes[d] == 1 ? 0 : «src_strides[d] * w.strides[d]»", "src_strides[d]"),
                ("dim.begin -= «(count - 1)» * dim.step", "count"),
                ("dim.src_stride = «-stride»;", "stride"),
            ],
            "csrc/ops/split.cpp": [
                ("size <= rest ? «rest - size» : -1", "rest"),
                ("«int64_t(d) == axis» || given[d]", "false"),
            ],
            "csrc/ops/check.cpp": [
                ("return own;", "", JOINS),
                ("strides[a] > strides[b] : «sizes[a] > sizes[b]»", "false"),
                ("if («sizes[d] == 1») continue;\n    if (!repr", "false"),
                ("int64_t last = «t.storage_offset()»;", "0", STORAGES),
                ("last += «(sizes[d] - 1)» * strides[d];", "sizes[d]", STORAGES),
                ("«last >= bytes / item_size»", "last > bytes / item_size", STORAGES),
                ("«data_of(op, out_name, out, false);»", "", STORAGES),
            ],
            "csrc/ops/reverse_subsequences.cpp": [("is_axis ? 0 : «length[d]»", "length[0]")],
        },
    ),
    "overlap": (
        "tests/test_planning.py tests/test_out.py -k '(overlap or shared or share) and not on_host'",
        {
            "csrc/ops/overlap.cpp": [
                ("large.weight % small.weight != 0 || «small.limit < m - 1»", "false"),
                ("std::gcd(divisor_[k + 1], terms_[k].weight)", "terms_[k].weight"),
                (
                    "«target - x * term.weight <= reach_[k + 1]»; --x",
                    "x == std::min<__int128>(target / term.weight, term.limit)",
                ),
                ("item_size > 1) terms.push_back({1, «v.item_size - 1»", "v.item_size"),
                ("a.begin + «largest_sum(b.terms)»", "0"),
                ("i.begin >= «end»)", "i.begin"),
                ("begins[met] < «end - projection.back()»", "0"),
                ("begin + length > stride", "false"),
                ("bytes_[w].end() <= «bytes_[v].begin»", "bytes_[v].begin + 8"),
                ("«nested &= d.weight > reach;»", "nested &= d.weight >= reach;"),
                ("2 * dims[j].limit", "dims[j].limit"),
                ("end_of(a) <= b.address || «end_of(b) <= a.address»", "end_of(b) <= a.address + 1"),
                ("reach = std::max(reach, end_of(views[order[end]]));", ""),
            ],
        },
    ),
    "CPU engine": (
        "$ kernels_fuzz 300 0 cpu && kernels_fuzz alignments cpu",
        {
            "csrc/kernels/affine_copy.h": [
                ("inner.reads_all() && «step == 1» &&", "true"),
                ("begin == 0 && step == 1 && «count == size»", "true"),
            ],
            "csrc/kernels/reverse_copy.h": [("«length_stride == inner.size * inner.length_stride»", "true")],
            "csrc/kernels/plan.h": [("vec.include(dims[k].src_stride * item_size);", "", "$ kernels_fuzz alignments")],
            "csrc/kernels/cpu/affine_copy.cpp": [
                ("!d.reads_all() || «d.src_stride != 1»", "false"),
                ("«d.dst_stride != count»", "false"),
                ("copy.dst != copies.front().dst + writer.bytes(k)", "false"),
                ("count > kMaxInterleaved", "count > kMaxInterleaved + 1"),
                ("copy.dims.size() == 2 && «are_segments(copy.dims)»", "true"),
                ("&& «copy.dims.back().src_stride == 1»", "true"),
                ("first.size != copies.front().dims.front().size", "false"),
                ("copy.dims.front().dst_stride != stride", "false"),
                ("!is_dense(inner)", "false"),
                ("copy.dst - first + writer_.bytes(n) > writer_.bytes(stride)", "false"),
                ("«items != stride» || bytes >", "false"),
            ],
            "csrc/kernels/cpu/chunk_writer.h": [
                ("max_staged == 0 || «!is_dense(dims)»", "false"),
                ("if (src && «are_segments(dims)») {", "dims.size() <= 2"),
                ("segment.dst != at || «segment.dst_row_stride != segments.front().dst_row_stride»)", "false"),
                ("at == «segments.front().dst + segments.front().dst_row_stride» ?", "at"),
                ("index <= row.begin ? 0 : std::min(«row.count»,", "row.count + 1"),
                ("zero(«window_end», end)", "window_end - 1"),
                ("kCacheLineBytes), whole = «kept_ - rest»", "kept_"),
            ],
            "csrc/kernels/cpu/reverse_copy.cpp": [
                ("if («length < 0») return 0", "false"),
                ("column.dst_stride != 1 || «column.src_stride != 1»", "false"),
                ("reversed ? «n - 1 - begin» : begin", "n - begin"),
                ("«column_.dst_stride == axis_.size» ?", "true"),
                ("«chunk.column_end = std::min(chunk.column_end, column.size);»", ""),
                ("reversed ? «-axis_.src_stride» : axis", "axis_.src_stride"),
                ("«chunk.end = std::min(chunk.end, axis.size);»", ""),
                ("lengths[std::size_t(k - j)] = length(c, «k»)", "j"),
                ("end - j, axis_.size, column_.dst_stride, «column_.src_stride»", "column_.dst_stride"),
                ("length_offset += «index * dims[k].length_stride»", "index"),
                ("uint64_t(axis_size) ? int64_t(length) : «axis_size»", "int64_t(length)"),
            ],
            "csrc/kernels/cpu/inner_loops/vectors.inl": [
                ("if («i < n») move(n - kItems)", "false"),
                ("if («i > 0») move(0)", "false"),
                ("move(0), i = «kItems - past»", "kItems + 1"),
            ],
            "csrc/kernels/cpu/inner_loops/copy.inl": [
                ("if («last») move(dst + last", "false"),
                ("if («at < bytes») move(bytes - kVectorBytes)", "false"),
                ("last = «bytes - kHalf * kVectorBytes»", "kHalf * kVectorBytes"),
                ("t.rows >= kEnough && t.bytes <= «8» * kVectorBytes", "9"),
                ("copy = t.bytes <= «4» * kVectorBytes", "5"),
                ("std::min(kRows, «batch.row_end - row»)", "kRows"),
                ("dst[i] = src[«i * src_stride»]", "i"),
                ("src)[«r * t.src_row_stride»];\n    for", "r"),
                ("move(0);\n    at = «kVectorBytes»", "2 * kVectorBytes"),
                ("if («bytes > 0») *dst", "bytes > 1"),
                ("if («bytes > 1») return copy", "bytes > 2"),
                ("last = «t.bytes - kSize»", "t.bytes - kSize - 1"),
            ],
            "csrc/kernels/cpu/inner_loops/transpose.inl": [
                ("std::min(«i», columns - kColumns)", "int64_t(0)"),
                ("backwards ? «rows - 1 - k» : k", "k"),
                ("std::min(kRows, «t.rows - r»)", "t.rows"),
                ("return from + «k * src_stride»", "k"),
                ("rows >= kSide && «columns * int64_t(sizeof(T)) >= kVectorBytes»", "true"),
                ("if («rows >= kSide» && columns *", "true"),
                ("std::min(kColumns, «t.n - i»)", "t.n"),
                ("backwards ? «-(r + rows - 1)» : r", "-r"),
                ("std::min(«j», rows - kSide)", "int64_t(0)"),
            ],
            "csrc/kernels/cpu/inner_loops/reverse.inl": [
                ("if («n <= kItems») return", "n < kItems"),
                ("reverse_row(dst, src + «length - 1», length)", "length"),
                ("transposed + j * stride + «p.lengths[j]» - kSide", "p.lengths[j] - 1"),
                ("return «ends[j + column]» - i", "ends[j]"),
                ("std::min(«k», p.axis_size - kSide)", "int64_t(0)"),
                ("std::min(«c», p.columns - kColumns)", "int64_t(0)"),
                ("r = «kSide - 1 - row»", "row"),
                ("if («p.axis_size < kSide» ||", "false"),
                ("|| «p.columns < kSide») {", "false"),
                ("reverse(end, «n - end»);\n      for", "0"),
                ("if («n * kSize >= kVectorBytes») return", "n * kSize > kVectorBytes / 2"),
                ("if («n * kSize >= 8») return", "n * kSize >= 7"),
                ("i < n; ++i) «dst[i] = src[-i];»\n}", "dst[i] = src[i];"),
                ("«(t.n - length)» * int64_t", "(t.n - length - 1)"),
                ("if (kAscending) «items(n - 1, n);»", ""),
                ("buffer[«some - 1 - k»]", "k"),
                ("last = src - «(i + some - 1)» * kStep", "(i + some)"),
                ("lengths[j + «lane / kItemLanes»]", "lane"),
            ],
            "csrc/kernels/cpu/inner_loops/dilate.inl": [
                ("zero_row(reinterpret_cast<char*>(dst), «t.begin» * kSize)", "t.begin - 1"),
                ("src_stride == -1 && «step == 2»)", "step >= 2"),
                ("«t.size - end») * kSize", "t.size - end - 1"),
                ("k < kStep; ++k) «dst[i * kStep + k] = T{};»", ""),
                ("src[«(n - 1) * src_stride»]", "n * src_stride"),
                ("dst[i * step] = src[«i * src_stride»]", "i"),
                ("src_stride == 1 && «step == 3»", "step >= 3"),
                ("if («bytes >= 16») return by", "bytes > 8"),
                ("at < bytes; ++at) «dst[at] = 0;»", ""),
                ("end = t.begin + «(t.n - 1) * t.step + 1»", "t.n * t.step"),
                ("else if («t.src_stride == -1»)", "t.src_stride < 0"),
            ],
            "csrc/kernels/cpu/inner_loops/interleave.inl": [
                ("if («count == 2») return", "count <= 3"),
                ("if («count == 3») return", "count == 4"),
                ("const T*>(«sources[k]»)", "sources[kCount - 1 - k]"),
                ("dst[«i * kCount + k»]", "k * n + i"),
                ("«i < n»; ++i)", "i < n - 1"),
            ],
            "csrc/kernels/cpu/inner_loops/gather.inl": [
                ("std::clamp<int64_t>(«p.columns - v * kLanes», 0", "p.columns"),
                ("std::max(«longest», p.lengths", "0"),
                ("Number(«(length[v][k] - 1)» * p.src", "length[v][k]"),
                ("if («i < longest»)", "i + 1 < longest"),
                ("two_rows = Numbers{} + Number(«2 * p.src_axis_stride»)", "p.src_axis_stride"),
                ("Mask(«(1u << columns) - 1»)", "1u << columns"),
                ("if («sizeof(T) == 4 && reach > std::numeric_limits<int32_t>::max()») return", "false"),
                ("p.src += «kGathered<T> * int64_t(sizeof(T))»", "kGathered<T>"),
                ("«p.lengths += kGathered<T>;»", ""),
            ],
            "csrc/kernels/cpu/inner_loops/non_temporal.inl": [
                ("head && «before») {", "nullptr"),
                ("last = «row + 1 == batch.row_end» &&", "false"),
                ("items(«end», n);\n  } else", "end + 1"),
                ("kAcrossRows && «row > batch.row_begin»", "true"),
                ("std::min(«bytes_to_line(dst)», bytes)", "0"),
                ("«std::memcpy(both, before - kCacheLineBytes, kCacheLineBytes);»", ""),
                ("at < bytes && «!continues»", "continues"),
                ("std::min(«bytes_to_line(dst) / int64_t(sizeof(T))», n)", "bytes_to_line(dst)"),
                ("before = src - segment.src_row_stride + «segment.bytes»", "0"),
                ("LineSharing::kAll) «before = src + segment.bytes;»", "before = src;"),
                ("std::min(«i + kBuffered», end)", "i + kBuffered - 1"),
            ],
        },
    ),
    "short way": (
        "tests/test_fast.py",
        {
            "csrc/python/plain.inl": [
                ("type == torch_.tensor || «type == torch_.parameter»", "true"),
                ("if («modes_interfere()») return false", "false"),
                ("!= Py_None) return «false»;\n  PyObject* level", "true"),
                ("PyLong_AsLong(level) < 0 && «kernels_are_ours()»", "true"),
                ("«count != known») {", "known < 0"),
                ("|| «layout != aoti_torch_layout_strided()»", "false"),
                ("if («overflow != 0») return false;\n  }\n  call.begin", "false"),
            ],
            "csrc/python/fast_calls.cpp": [
                ("is_plain(out) && !(«grad_mode» &&", "false"),
                ("&& !«answers_true(out, names.is_inference)»", "false"),
                ("|| «says_true(torch_.is_excluded, torch_.autograd_key)»", "false"),
                ("«says_true(torch_.is_wrapped, requiring_grad)»)", "false"),
                ("!linear.plain() || («shape.has_lengths» && !is_plain", "false"),
                ("if («out != Py_None») return written", "false"),
            ],
            "csrc/python/index.inl": [
                ("entry == Py_Ellipsis && «ellipsis_ == entries_»", "true", INDEX),
                ("if («steps < 1») return false", "steps < 0", INDEX),
                ("index < 0 ? «index + size» : index", "index + size - 1", INDEX),
                ("step < 0 ? «start - numbers[rank] + 1» : start", "start", INDEX),
            ],
        },
    ),
    "autograd": (
        "tests/test_unusual_inputs.py tests/test_out.py tests/test_autograd.py -m '' "
        "-k '(ordinary or test_out or unusual) and not (gradcheck or torch_func or on_host)'",
        {
            "torch_dml_ops/_autograd.py": [
                ("«in_forward_mode() or »_requires", "", GRADCHECK),
                ("ctx.linear.call(«tangents[: ctx.count]», _others", "tangents", GRADCHECK),
                ('any(«a.type.kind() == "TensorType"» for a in others)', "False"),
                ("set_single_level_autograd_function_allowed(«allowed»)", "True", GRADCHECK),
                ("ctx.save_for_forward(*constants)", "pass", GRADCHECK),
                ("with torch.enable_grad(), «private._set_fwd_grad_enabled(True), »private._Auto", "", GRADCHECK),
                ("torch.autograd.graph.increment_version(tuple(_as_list(out)))", "pass"),
                ("if t.is_conj()« or t.is_neg()»:", ""),
                ("if t.is_inference()« and not torch.is_inference_mode_enabled()»", ""),
                ("«torch.is_grad_enabled() and »t.requires_grad:", ""),
            ],
            "torch_dml_ops/_operators.py": [
                ('call("slice1", cotangents[0], offsets, sizes, strides, «shapes[0]»)', "None", GRADCHECK),
                ("[«shape[axis]» for shape in shapes]", "shapes[0][axis]", GRADCHECK),
            ],
        },
    ),
    "vmap": (
        "tests/test_vmap.py tests/test_autograd.py",
        {
            "torch_dml_ops/_operators.py": [
                ("else tensor.movedim(«dim, 0»)", "0, dim"),
                ("None if output_sizes is None else [n, *output_sizes]", "None"),
                ("del sizes[dim]", "del sizes[0]"),
                ("return input, split_sizes, «axis + 1»", "axis"),
                ("return inputs, «axis + 1»", "axis"),
                ("return input, sequence_lengths, «axis + 1»", "axis"),
                ("* len(results) if operator.gives_list else «0»", "1"),
                ("«operator.result(*map(partial(_in_tensors, _example), arguments, in_dims))»", "pass"),
                ("«operator.result(*arguments)»\n        return by_torch", "pass"),
                ("[«piece.clone()» for", "piece"),
            ],
        },
    ),
    "fake kernels": (
        "tests/test_refusals.py tests/test_compile.py -k 'not (opcheck or on_host)'",
        {
            "torch_dml_ops/_operators.py": [
                ('return Result(«input.shape», {"input": input}, ((', "sequence_lengths.shape"),
                (
                    "[*result.like.items()«, *result.also_read»]",
                    "",
                    "tests/test_out.py -k 'must_not_be_an_input and meta'",
                ),
                ("return new_dense(name, sizes, «order_of»)", "order_of[:1]", JOINS),
                ("checks.same_kind(name, out_name, tensor, first_name, first)", "pass"),
                ("d == axis or «piece.shape[d] == first.shape[d]»", "True"),
                ("«sum(split_sizes) == input.shape[axis]»", "sum(split_sizes) >= input.shape[axis]"),
            ],
            "torch_dml_ops/_layout.py": [
                ("keys = «sizes if known(strides[a] == strides[b]) else strides»", "strides"),
                (
                    "next((«own for own in map(memory_order, before) if _dense_in(own, widest)»), order)",
                    "order for _ in ()",
                    JOINS,
                ),
                ("expected *= «torch.sym_max(tensor.shape[d], 1)»", "tensor.shape[d]"),
                ("known(tensor.shape[d] == 1) or ", ""),
            ],
        },
    ),
    "Inductor's rule": (
        "tests/test_inductor.py",
        {
            "torch_dml_ops/_fusion.py": [
                ('tag = f" torch_dml_ops:«{_mode}»_', "any", CACHES),
                ('= «_TAG.sub("", config.cache_key_tag) + tag»', "tag", CACHES),
            ],
            "torch_dml_ops/_inductor.py": [
                ("walks.append((«offset + size - 1», stride))", "offset + size"),
                ("«1 + »FloorDiv(size - 1, abs(stride))", ""),
                ("first = «start + (count - 1) * stride» if backwards", "start"),
                ("if not _known(«sympy.Eq(first, 0)»)", "True"),
                ("ops.lt(place(i), place(end))", "ops.le(place(i), place(end))"),
                ("reversed_count - «1» - k", "0"),
                ("index[axis] += start", "index[axis] -= start"),
                ("ops.where(ops.lt(length, none), «whole», length)", "none"),
                ("ops.maximum(«ops.minimum(length, whole)», none)", "length"),
                ("if self.dtype not in «_CONVERTED»:\n            return True", "(torch.bool,)"),
                ("call.bytes <= TINY", "call.bytes < TINY", RULE),
                ("abs(stride) > 4", "abs(stride) > 5", RULE),
                ('«lengths.meta["val"].stride(d) == 0»', "True", RULE),
            ],
        },
    ),
    "index": (
        "tests/test_index.py tests/test_window.py tests/test_tracing.py::test_every_argument_is_unknown",
        {
            "torch_dml_ops/_index.py": [
                ("recorded_among(input«, *numbers_in(index)»)", ""),
                ("any(isinstance(part, Walk) and known(«part.length == 0») for part in parts)", "False"),
                ("return number + size if «number < 0» else number", "False"),
                ("if not -size <= number «< size»:", "<= size"),
                ("«d + shift >= 0 and »backwards[d + shift]", ""),
                ("if given > «len(sizes)»:", "len(sizes) + 1"),
                ("-1 in strides else value«.clone()»", ""),
                ("return slice(offset, offset + size, «-part.step»)", "1"),
            ],
            "torch_dml_ops/_slices.py": [
                ("return index + size if index + size >= least else «least»", "0"),
                ("return index if index <= most else «most»", "size"),
                ("length = max(length, 0)", "length = max(length, 1)"),
                ("else self.start - extent« + 1», extent", ""),
                ("max(«min(step, sys.maxsize)», -sys.maxsize)", "step"),
            ],
        },
    ),
    "mode": (
        "tests/test_negative_steps.py",
        {
            "torch_dml_ops/_negative_steps.py": [
                ("_setitem« or func is operator.setitem»", ""),
                ("_getitem« or func is operator.getitem»", ""),
                ("for entry in «index if isinstance(index, tuple) else (index,)»", "(index,)"),
                ("return bool(step < 0)", "return bool(step <= -2)"),
                ("return func(*args, **«(kwargs or {})»)", "{}"),
                ("harmless_modes.add(NegativeSteps)", "pass"),
                ("return mode if «function is None» else", "True"),
                ("not callable(function)« or isinstance(function, type)»", ""),
                ("return end.value", "return None"),
                ("resume = functools.partial(generator.throw, error)", "raise"),
                ("await _Resumed(generator.aclose())", "pass"),
            ],
        },
    ),
    "descriptors": (
        "tests/test_directml_descriptors.py tests/test_directml_operator.py",
        {
            "torch_dml_ops/directml/operator.py": [("if «size != 1 and »stride", "")],
            "torch_dml_ops/directml/tensor_desc.py": [
                ("* self.data_type.size_in_bits // «32») * 4", "8"),
                ("sum(«(size - 1)» * stride for size", "size"),
                ("None if «tensor.is_contiguous()» else", "False"),
                ("if len(buffer) < «total»:", "total - 1"),
                ("buffer.storage_offset() % item != 0", "False"),
                ("if not 1 <= size «<= UINT_MAX»:", ""),
                ("if places > «UINT_MAX»:", "UINT_MAX + 1"),
                ("«total % 4 != 0»", "False"),
                ("alignment & (alignment - 1) != 0", "False"),
                ("if stride == 0« and self.sizes[d] > 1»", ""),
                ("«!= Overlap.NONE»:", "== Overlap.SOME"),
            ],
        },
    ),
    "rules": (
        "tests/test_directml_descriptors.py",
        {
            "torch_dml_ops/directml/_rules.py": [
                ("count not in support.dimension_counts« and support.dimension_counts != _ANY_COUNT»", ""),
                ("!= first.data_type« and path != LENGTHS»", ""),
                ("if value «<» least", "<="),
                ("if d != axis« and size != wanted»", ""),
                ("if not 0 <= axis < «len(whole.sizes)»:\n        rule", "len(whole.sizes) + 1"),
                ("elif not INT_MIN <= stride «<= INT_MAX»", ""),
                ("if offset + size > «limit»", "limit + 1"),
                ("not 1 <= size <= «steps»", "steps + 1"),
                ("1 <= stride« <= UINT_MAX»", ""),
                ("if offset + «(size - 1)» * stride", "size"),
                ("if sum(sizes) «!=» whole", ">"),
                ("    for size in lengths.sizes[axis : axis + 1]:\n        if «size != 1»", "False"),
            ],
        },
    ),
    "graph": (
        "tests/test_directml_graph.py",
        {
            "torch_dml_ops/directml/_memory.py": [
                ("reshape(-1)«.contiguous()»", ""),
                ("all(«size == 1 or »stride == other", ""),
                ("count = «-(-self._bytes // self._item_size)»", "self._bytes // self._item_size"),
                ("memory = tensor.«new_zeros»", "new_empty"),
                ("tensor = tensor.narrow(d, 0, 1)", "pass"),
            ],
            "torch_dml_ops/directml/_wiring.py": [
                ("if «first is not edge»:", "False"),
                ("if «0 <= index < count»:", "index < count"),
                ("if «size != total»:", "False"),
                ("elif desc.flags & TensorFlags.OWNED_BY_DML:", "elif False:"),
                ("self._cycle(«[*path][path[source] :]»)", "[*path]"),
                ("connected.add(edge.source)", "pass"),
                ("if edge.source.node is «not None»:\n                self._into", "None"),
            ],
        },
    ),
    "parsing": (
        "tests/test_directml_models.py tests/test_directml_json.py tests/test_model_fields.py",
        {
            "torch_dml_ops/directml/_initial_values.py": [
                ("if isinstance(value, list) and «not value»:", "False"),
                ("value.lower() in _WORDS:\n            return kind.type(_WORDS[«value.lower()»])", "'nan'"),
                ("if «np.isfinite(number)»:", "True"),
                ("limits.min <= value «<= limits.max»", ""),
                ("if file.stat().st_size % «data_type.size_in_bytes»:", "1"),
                ("if array.size == 0:", "if False:"),
                ("if data_type not in (None, found)", "if data_type not in (None, found, data_type)"),
                ("(folder / relative«, Path.cwd() / relative»)", ","),
                ('source.replace("\\\\", "/")', "source"),
            ],
            "torch_dml_ops/directml/_load_model.py": [
                ("if size < «end»:", "end - 1"),
                ("Resource(«-(-size // 4) * 4», initial)", "size"),
                ("if not isinstance(tensors, TensorDesc) and len({tensor.flags for tensor in tensors}) > «1»", "9"),
            ],
        },
    ),
    "ONNX export": (
        "tests/test_onnx_export.py",
        {
            "torch_dml_ops/onnx/_export.py": [
                ("«(count - 1) * stride + 1»)", "count * stride"),
                ("stride == 1 and «_equal(start, 0)» and", "True"),
                ("- «1»\n            if not isinstance(end, int)", "0"),
                ("elif end < 0:\n                end = «BEFORE_FIRST»", "end"),
                ("end - «_size(input, d)»", "0"),
                ("turned = [d for d, stride in enumerate(window_strides) if stride < «0»]", "-1"),
                ("before, after = «offset + window - extent», size", "offset"),
                ("too_many = max(«gap - after», 0)", "gap"),
                ("after = max(«after - gap», 0)", "after"),
                ("len(split_sizes) == 1", "False"),
                ("d != axis and not «_equal(n, 1)»", "False"),
                ("for n in («1», size)", "0"),
                ("time_axis=time, batch_axis=«1 - time»", "0"),
            ],
        },
    ),
    "ONNX import": (
        "tests/test_onnx_import.py -k 'not (every_model or networks or exported or ships or compile)'",
        {
            "torch_dml_ops/onnx/_import_inputs.py": [
                ("if not -rank <= axis «< rank»:", "<= rank"),
                ("if «d in chosen»:", "False"),
            ],
            "torch_dml_ops/onnx/_import_arithmetic.py": [
                ("«_ordered(A), _ordered(B)»)", "A, B"),
            ],
            "torch_dml_ops/onnx/_import_operators.py": [
                ("start = larger(start, -sizes[d])", "pass"),
                ("if must_divide and «last != each»", "False"),
                ("each = («size + num_outputs - 1») // num_outputs", "size"),
                ("if size == 0 and «not allowzero»", "True"),
                ("d = «axis if axis == rank else »axis_of", ""),
                ("at = 2 * («data.dim() - 1 - d»)", "d"),
                ("«last - torch.clamp(last - at, min=0)»", "at"),
                ("«larger(more, 0) // 2 - larger(-more, 0) // 2»", "more // 2"),
                (
                    'for d in «sorted(axes_of("Unsqueeze: axes", axes, data.dim() + len(axes)))»',
                    'axes_of("Unsqueeze: axes", axes, data.dim() + len(axes))',
                ),
            ],
            "torch_dml_ops/onnx/_import_indexing.py": [
                ("torch.where(«indices < 0», indices + size", "indices > 0"),
                ("if «data.dtype in HALVES»:\n            return data[", "False"),
                ("if «data.dtype in HALVES»:\n            return torch.index_put", "False"),
                ("one = «indices.dim() == 1»", "False"),
            ],
            "torch_dml_ops/onnx/_import_sizes.py": [
                ("if b < 0:\n        «a, b = -a, -b»", "pass"),
                ("return a - b * «_divide(a, b)»", "(a // b)"),
                ("length = len(left) if «len(right) == 1» else", "False"),
            ],
        },
    ),
    "DTensor plans": (
        "tests/test_distributed.py::test_placements_and_plans tests/test_distributed.py",
        {
            "torch_dml_ops/distributed/_plans.py": [
                ("if d in moved« and d not in exchanged» else", ""),
                ("if count <= «0»:", "1"),
                ("* run.target_step - «parts[axis][0]»", "0"),
                ("moved = {axis} if len(sizes) > «1» else", "9"),
                ("starts = [sum(sizes[:«k»])", "k + 1"),
                ("lengths_placed = tuple(«Replicate() if p.is_partial() else p» for", "p"),
                ("strides = [«dense_strides(name, sizes, like)» for", "dense_strides(name, sizes, like[:1])"),
                ("key += «t._spec, »local.shape", ""),
                ("if placements «!=» like.placements", "=="),
            ],
        },
    ),
    "DTensor exchange": (
        "tests/test_distributed.py",
        {
            "torch_dml_ops/_operators.py": [
                ("[«t if isinstance(t, type(like)) else like.new_zeros(t.shape)» for", "t")
            ],
            "torch_dml_ops/distributed/_exchange.py": [
                ("else self.offset + self.size - «1»", "0"),
                ("self[3] == size and («self[2] == 1 or size <= 1»)", "True"),
                ("return Window(«min(start, start + far)»,", "start"),
                ("self.is_local = «not any(leaving(*layout))»", "True"),
                ("self.sent = [t for t in sent if t.peer «!=» here]", "=="),
                ("start = run.source_start + «t.first» * run.source_step", "0"),
                ("* run.source_step - «begin»", "0"),
                ("permute(order).contiguous().permute(«[order.index(d) for d in range(len(order))]»)", "order"),
            ],
            "torch_dml_ops/distributed/_shards.py": [
                ("chunk = «-(-size // ranks)»\n    return", "size // ranks"),
                ("return «max(first, 0)», min", "first"),
                ("start, step, begin, end = -start, -step, «1 - end», 1 - begin", "-end"),
                ("return max(first, 0), «min(last, count)»", "last"),
            ],
        },
    ),
}

# Faults that change no result, by their text, and why.
EQUIVALENT: dict[str, str] = {
    "|| «layout != aoti_torch_layout_strided()»": (
        "the overloads `fast` have kernels for strided tensors alone: the dispatcher refuses others, and the call "
        "falls back all the same, only later"
    ),
}
